#include "muster/parallel/sharded/shard_layout.h"

#include <algorithm>
#include <map>

namespace muster::parallel {
namespace {

int64_t rounded_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

/// A bucket that is being filled.
struct Filling {
  ShardBucket bucket;
  int64_t used = 0;  // elements

  void add(size_t parameter, int64_t numel) {
    bucket.parameters.push_back(parameter);
    bucket.offsets.push_back(used);
    used += rounded_up(numel, kShardAlign);
  }
};

}  // namespace

std::vector<ShardPiece> ShardBucket::pieces(int rank, const std::vector<int64_t>& numels) const {
  std::vector<ShardPiece> out;
  const int64_t first = rank * chunk, last = first + chunk;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const int64_t begin = std::max<int64_t>(0, first - offsets[i]);
    const int64_t end = std::min(numels[parameters[i]], last - offsets[i]);
    if (begin < end) out.push_back({parameters[i], begin, end, offsets[i] + begin - first});
  }
  return out;
}

std::vector<ShardBucket> lay_out_shards(const std::vector<ShardInput>& parameters,
                                        int world_size,
                                        int64_t bucket_bytes) {
  std::vector<ShardBucket> buckets;
  const auto close = [&](Filling& filling) {
    if (filling.used == 0) return;
    filling.bucket.chunk = rounded_up(filling.used, kShardAlign * world_size) / world_size;
    buckets.push_back(std::move(filling.bucket));
    filling = {};
  };
  std::map<int, Filling> open;  // by kind
  for (size_t i = parameters.size(); i-- > 0;) {
    const ShardInput& input = parameters[i];
    if (input.numel == 0) continue;  // nobody's
    Filling& filling = open[input.kind];
    if ((filling.used + input.numel) * input.element_bytes > bucket_bytes) close(filling);
    filling.add(i, input.numel);
  }
  for (auto& [kind, filling] : open) close(filling);
  return buckets;
}

}  // namespace muster::parallel
