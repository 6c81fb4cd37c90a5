// For evaluation: every sample exactly once over all ranks, so that the ranks' shares may differ in
// length by one.
#pragma once

#include <cstdint>

#include "muster/data/samplers/sampler.h"

namespace muster::data {

/// Rank r visits r, r+R, r+2R, … below `samples`; nothing is repeated or cut, as DistributedSampler
/// must do. The number of batches may differ between ranks: reduce sums and counts once at the end,
/// not per batch.
class ExactCoverSampler final : public Sampler {
 public:
  /// Throws a usage error if `samples` is negative, the world size is below 1, or the rank is
  /// outside 0 … world_size-1.
  ExactCoverSampler(int64_t samples, int64_t world_size, int64_t rank);

  std::vector<int64_t> indices(int64_t epoch, int64_t consumed = 0) const override;
  int64_t size() const override;
  int64_t world_size() const override { return world_size_; }

 private:
  int64_t samples_;
  int64_t world_size_;
  int64_t rank_;
};

}  // namespace muster::data
