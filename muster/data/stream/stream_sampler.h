// The order in which a stream's samples are read.
#pragma once

#include <cstdint>
#include <vector>

#include "muster/data/samplers/sampler.h"
#include "muster/data/stream/stream_dataset.h"

namespace muster::data {

/// See Note [Streams]. Without shuffling the lanes take the shards, and their samples, as they come.
class StreamSampler final : public Sampler {
 public:
  /// `starts`: the number of each shard's first sample, and that of all samples. Throws a usage error
  /// for a rank outside of the world.
  StreamSampler(std::vector<int64_t> starts, StreamOptions options, const EpochShare& share);

  std::vector<int64_t> indices(int64_t epoch, int64_t consumed = 0) const override;
  int64_t size() const override;
  int64_t world_size() const override { return share_.world_size; }

 private:
  std::vector<int64_t> shard_order(int64_t epoch) const;
  std::vector<std::vector<int64_t>> lanes(int64_t epoch) const;
  void shuffle_windows(std::vector<int64_t>& samples, int64_t epoch, int64_t lane) const;

  std::vector<int64_t> starts_;
  StreamOptions options_;
  EpochShare share_;
};

}  // namespace muster::data
