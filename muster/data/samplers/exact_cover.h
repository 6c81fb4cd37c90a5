// Every sample exactly once over all ranks, so that the ranks' shares may differ in length by one.
#pragma once

#include <cstdint>

#include "muster/data/samplers/sampler.h"

namespace muster::data {

struct ExactCoverSamplerOptions {
  int64_t world_size = 1;
  int64_t rank = 0;
  uint64_t seed = 0;     ///< the same on all ranks
  bool shuffle = false;  ///< DistributedSampler's order instead of 0, 1, 2, …
};

/// Rank r visits the places r, r+R, r+2R, … of an epoch's order; nothing is repeated or cut, as
/// DistributedSampler must do. The number of batches may differ between ranks by one: in evaluation
/// reduce sums and counts once at the end, in training weigh each rank's loss by its share of the
/// batch.
class ExactCoverSampler final : public Sampler {
 public:
  /// Throws a usage error if `samples` is negative, the world size is below 1, or the rank is
  /// outside 0 … world_size-1.
  explicit ExactCoverSampler(int64_t samples, ExactCoverSamplerOptions options = {});

  std::vector<int64_t> indices(int64_t epoch, int64_t consumed = 0) const override;
  int64_t size() const override;
  int64_t world_size() const override { return options_.world_size; }

 private:
  int64_t samples_;
  ExactCoverSamplerOptions options_;
};

}  // namespace muster::data
