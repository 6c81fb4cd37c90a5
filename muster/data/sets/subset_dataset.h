// Some of another dataset's samples: what splits are made of.
#pragma once

#include <memory>
#include <vector>

#include "muster/data/dataset.h"
#include "muster/data/image_parts.h"

namespace muster::data {

/// Samples of `whole`, numbered from 0. `Batch::indices` are the subset's own numbers.
class SubsetDataset final : public Dataset, private ImageParts {
 public:
  /// Samples from … from+count-1. Throws a usage error if the range is not inside `whole`.
  SubsetDataset(std::shared_ptr<const Dataset> whole, int64_t from, int64_t count);
  /// Samples of these numbers, in this order; one may come more than once. Throws a usage error for
  /// a number outside 0 … whole->size()-1.
  SubsetDataset(std::shared_ptr<const Dataset> whole, std::vector<int64_t> indices);

  int64_t size() const override { return count_; }
  DataSpec spec() const override { return whole_->spec(); }
  uint32_t fingerprint() const override;
  bool is_by_sample() const override { return whole_->is_by_sample(); }
  Batch collate(const std::vector<Sample>& samples) const override;
  at::Tensor targets() const override;
  std::shared_ptr<const Dataset> before_normalising() const override;
  const ImageParts* image_parts() const override { return whole_->image_parts() ? this : nullptr; }
  std::vector<std::string> remarks() const override { return whole_->remarks(); }
  std::string learned() const override { return whole_->learned(); }

  const std::shared_ptr<const Dataset>& whole() const { return whole_; }
  /// The numbers that samples have in `whole()`.
  std::vector<int64_t> of_whole(std::span<const int64_t> indices) const;
  /// The same samples of another dataset, of the same size: the whole's, transformed, say.
  std::shared_ptr<const SubsetDataset> over(std::shared_ptr<const Dataset> other) const;

 private:
  Batch load(std::span<const int64_t> indices, const SampleContext& context) const override;
  std::vector<Sample> load_samples(std::span<const int64_t> indices,
                                   const SampleContext& context) const override;
  Sample read_part(int64_t index, const formats::ChooseRegion& choose) const override;

  std::shared_ptr<const Dataset> whole_;
  int64_t from_ = 0;  // of a range
  int64_t count_;
  std::vector<int64_t> indices_;  // else
};

}  // namespace muster::data
