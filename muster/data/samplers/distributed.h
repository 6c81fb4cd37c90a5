// Every rank visits its own share of one random order; all shares are equally long.
#pragma once

#include <cstdint>

#include "muster/data/samplers/sampler.h"

namespace muster::data {

struct DistributedSamplerOptions {
  int64_t world_size = 1;
  int64_t rank = 0;
  uint64_t seed = 0;  ///< the same on all ranks
  bool shuffle = true;
  /// Cut the order to a multiple of the world size instead of repeating its start.
  bool drop_last = false;
};

/// The order of Python's torch.utils.data.distributed.DistributedSampler, index for index, for
/// every combination of arguments. There is no set_epoch to forget: the epoch is an argument.
///
/// With n samples and R ranks: order = randperm(n) from seed+epoch (or 0 … n-1); its length is made
/// a multiple of R, by repeating it from its start as often as needed or (drop_last) by cutting;
/// rank r takes places r, r+R, r+2R, …
class DistributedSampler final : public Sampler {
 public:
  /// Throws a usage error if `samples` is negative, the world size is below 1, or the rank is
  /// outside 0 … world_size-1.
  explicit DistributedSampler(int64_t samples, DistributedSamplerOptions options);

  std::vector<int64_t> indices(int64_t epoch, int64_t consumed = 0) const override;
  int64_t size() const override;
  int64_t world_size() const override { return options_.world_size; }

 private:
  int64_t samples_;
  DistributedSamplerOptions options_;
};

}  // namespace muster::data
