// 0, 1, 2, … on one rank.
#pragma once

#include "muster/data/samplers/sampler.h"

namespace muster::data {

/// Python's torch.utils.data.SequentialSampler.
class SequentialSampler final : public Sampler {
 public:
  /// Throws a usage error if `samples` is negative.
  explicit SequentialSampler(int64_t samples);

  std::vector<int64_t> indices(int64_t epoch, int64_t consumed = 0) const override;
  int64_t size() const override { return samples_; }

 private:
  int64_t samples_;
};

}  // namespace muster::data
