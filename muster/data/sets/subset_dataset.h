// A range of another dataset's samples.
#pragma once

#include "muster/data/dataset.h"

namespace muster::data {

/// Samples from … from+count-1 of `whole`, numbered from 0. `Batch::indices` are the subset's own
/// numbers.
class SubsetDataset final : public Dataset {
 public:
  /// Throws a usage error if the range is not inside `whole`.
  SubsetDataset(std::shared_ptr<const Dataset> whole, int64_t from, int64_t count);

  int64_t size() const override { return count_; }
  DataSpec spec() const override { return whole_->spec(); }
  uint32_t fingerprint() const override;

  const std::shared_ptr<const Dataset>& whole() const { return whole_; }
  int64_t from() const { return from_; }

 private:
  Batch load(std::span<const int64_t> indices, const SampleContext& context) const override;

  std::shared_ptr<const Dataset> whole_;
  int64_t from_;
  int64_t count_;
};

}  // namespace muster::data
