#include "muster/data/stream/stream_sampler.h"

#include <algorithm>
#include <utility>

#include "muster/data/rng.h"
#include "muster/data/samplers/permutation.h"

namespace muster::data {
namespace {

constexpr int64_t kWindows = 0xffff;  // position of the numbers that shuffle windows

}  // namespace

StreamSampler::StreamSampler(std::vector<int64_t> starts,
                             StreamOptions options,
                             const EpochShare& share)
    : starts_(std::move(starts)), options_(options), share_(share) {
  check_rank(share.world_size, share.rank);
}

int64_t StreamSampler::size() const {
  const int64_t all = starts_.back(), world = share_.world_size;
  return all / world + (share_.rank < all % world ? 1 : 0);
}

std::vector<int64_t> StreamSampler::shard_order(int64_t epoch) const {
  const auto shards = static_cast<int64_t>(starts_.size()) - 1;
  if (!share_.shuffle) return counting(shards);
  at::Generator generator = make_generator(share_.seed + static_cast<uint64_t>(epoch));
  return random_permutation(shards, generator);
}

/// Whose lane is shortest takes the next shard: the lane that comes to its end first.
std::vector<std::vector<int64_t>> StreamSampler::lanes(int64_t epoch) const {
  std::vector<std::vector<int64_t>> all(static_cast<size_t>(options_.lanes));
  for (const int64_t shard : shard_order(epoch)) {
    auto& lane = *std::min_element(
        all.begin(), all.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
    const auto at = static_cast<size_t>(shard);
    for (int64_t sample = starts_[at]; sample < starts_[at + 1]; ++sample) lane.push_back(sample);
  }
  return all;
}

void StreamSampler::shuffle_windows(std::vector<int64_t>& samples,
                                    int64_t epoch,
                                    int64_t lane) const {
  const auto count = static_cast<int64_t>(samples.size());
  Rng rng(share_.seed, epoch, lane, kWindows);
  for (int64_t from = 0; from < count; from += options_.shuffle_window) {
    const int64_t end = std::min(count, from + options_.shuffle_window);
    for (int64_t left = end - from; left > 1; --left) {  // Fisher, Yates
      const auto last = static_cast<size_t>(from + left - 1);
      std::swap(samples[last], samples[static_cast<size_t>(from + rng.below(left))]);
    }
  }
}

std::vector<int64_t> StreamSampler::indices(int64_t epoch, int64_t consumed) const {
  check_position(epoch, consumed);
  std::vector<std::vector<int64_t>> all = lanes(epoch);
  if (share_.shuffle && options_.shuffle_window > 1) {
    for (size_t lane = 0; lane < all.size(); ++lane)
      shuffle_windows(all[lane], epoch, static_cast<int64_t>(lane));
  }
  size_t longest = 0;
  for (const auto& lane : all) longest = std::max(longest, lane.size());
  std::vector<int64_t> order;
  order.reserve(static_cast<size_t>(starts_.back()));
  for (size_t turn = 0; turn < longest; ++turn) {
    for (const auto& lane : all) {
      if (turn < lane.size()) order.push_back(lane[turn]);
    }
  }
  return every_nth(order, std::min(consumed, starts_.back()) + share_.rank, share_.world_size);
}

}  // namespace muster::data
