// A dataset over tensors that are already there.
#pragma once

#include <string>

#include "muster/data/dataset.h"

namespace muster::data {

/// Sample i is row i of each tensor. Rows are copied as they are, without conversion.
class TensorDataset final : public Dataset {
 public:
  /// `data` [N, …] of any dtype, `target` [N, …] of any dtype, both on the CPU; kept contiguous,
  /// shared with the caller if they are so already. `classes` as in DataSpec. Throws a usage error
  /// if the first dimensions differ, one is missing, or a tensor is not dense on the CPU.
  TensorDataset(at::Tensor data,
                at::Tensor target,
                int64_t classes = 0,
                std::string name = "tensors");
  /// Any tensors by name, at least one; the spec is that of the first. The same rules.
  explicit TensorDataset(tensor::NamedTensorList tensors, std::string name = "tensors");

  int64_t size() const override;
  DataSpec spec() const override;
  uint32_t fingerprint() const override;
  /// "target", where it is of classes.
  at::Tensor targets() const override;

 private:
  Batch load(std::span<const int64_t> indices, const SampleContext& context) const override;

  tensor::NamedTensorList tensors_;
  int64_t classes_ = 0;
  std::string name_;
};

}  // namespace muster::data
