#include "muster/data/sets/tensor_dataset.h"

#include <cstring>
#include <utility>

#include <ATen/ops/empty.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/fingerprint.h"

namespace muster::data {
namespace {

at::Tensor checked(const at::Tensor& tensor, std::string_view role) {
  if (!tensor.defined()) {
    throw usage_error({.refused = concat("a dataset without ", role, " tensor")});
  }
  if (tensor.layout() != at::kStrided || !tensor.device().is_cpu() || tensor.dim() < 1) {
    throw usage_error({.refused = concat("the ", role, " tensor of a dataset"),
                       .rule = "it is dense, on the CPU, and has a first dimension of samples",
                       .value = concat(tensor.toString(), " with ", tensor.dim(), " dimensions")});
  }
  return tensor.detach().contiguous();
}

/// The rows of these indices. // [B, …] for rows // [N, …]
at::Tensor copy_rows(const at::Tensor& rows, std::span<const int64_t> indices) {
  std::vector<int64_t> shape = rows.sizes().vec();
  shape[0] = static_cast<int64_t>(indices.size());
  at::Tensor out = at::empty(shape, rows.options());
  if (out.numel() == 0) return out;
  const size_t row_bytes = out.nbytes() / indices.size();
  const auto* from = static_cast<const std::byte*>(rows.const_data_ptr());
  auto* to = static_cast<std::byte*>(out.mutable_data_ptr());
  for (const int64_t index : indices) {
    std::memcpy(to, from + static_cast<size_t>(index) * row_bytes, row_bytes);
    to += row_bytes;
  }
  return out;
}

}  // namespace

TensorDataset::TensorDataset(at::Tensor data, at::Tensor target, int64_t classes, std::string name)
    : data_(checked(data, "data")),
      target_(checked(target, "target")),
      classes_(classes),
      name_(std::move(name)) {
  if (data_.size(0) != target_.size(0)) {
    throw usage_error({.refused = concat("dataset ", name_),
                       .rule = "data and targets have as many rows",
                       .value = concat(data_.size(0), " and ", target_.size(0))});
  }
}

int64_t TensorDataset::size() const { return data_.size(0); }

uint32_t TensorDataset::fingerprint() const {
  return fingerprint_of(target_, fingerprint_of(data_));
}

DataSpec TensorDataset::spec() const {
  return {.name = name_,
          .sample_shape = data_.sizes().slice(1).vec(),
          .classes = classes_,
          .dtype = data_.scalar_type()};
}

Batch TensorDataset::load(std::span<const int64_t> indices, const SampleContext&) const {
  return {.tensors = {{"data", copy_rows(data_, indices)}, {"target", copy_rows(target_, indices)}},
          .indices = {indices.begin(), indices.end()}};
}

}  // namespace muster::data
