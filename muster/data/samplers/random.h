// A new random order per epoch on one rank.
#pragma once

#include <cstdint>
#include <optional>

#include "muster/data/samplers/sampler.h"

namespace muster::data {

struct RandomSamplerOptions {
  uint64_t seed = 0;
  bool replacement = false;  ///< draw each sample anew, so that samples may repeat and be left out
  std::optional<int64_t> num_samples;  ///< per epoch; the dataset's size if not given
};

/// The order of Python's torch.utils.data.RandomSampler with
/// generator=torch.Generator().manual_seed(seed + epoch): a generator per epoch, as
/// DistributedSampler has it, so that an epoch's order does not hang on the epochs before it and
/// one rank sees the order that many ranks share.
class RandomSampler final : public Sampler {
 public:
  /// Throws a usage error if `samples` is negative or num_samples is below 1.
  explicit RandomSampler(int64_t samples, RandomSamplerOptions options = {});

  std::vector<int64_t> indices(int64_t epoch, int64_t consumed = 0) const override;
  int64_t size() const override { return options_.num_samples.value_or(samples_); }

 private:
  int64_t samples_;
  RandomSamplerOptions options_;
};

}  // namespace muster::data
