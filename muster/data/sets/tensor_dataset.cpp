#include "muster/data/sets/tensor_dataset.h"

#include <cstring>
#include <utility>

#include <ATen/ops/empty.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/batch_memory.h"
#include "muster/data/fingerprint.h"
#include "muster/tensor/dtype_name.h"

namespace muster::data {
namespace {

at::Tensor checked(const at::Tensor& tensor, std::string_view role) {
  if (!tensor.defined()) {
    throw usage_error({.refused = concat("a dataset without ", role, " tensor")});
  }
  if (tensor.layout() != at::kStrided || !tensor.device().is_cpu() || tensor.dim() < 1) {
    throw usage_error(
        {.refused = concat("the ", role, " tensor of a dataset"),
         .rule = "it is dense, on the CPU, and has a first dimension of samples",
         .value = concat(
             tensor::dtype_name(tensor.scalar_type()), " with ", tensor.dim(), " dimensions")});
  }
  return tensor.detach().contiguous();
}

/// The rows of these indices. // [B, …] for rows // [N, …]
at::Tensor copy_rows(const at::Tensor& rows,
                     std::span<const int64_t> indices,
                     const SampleContext& context) {
  std::vector<int64_t> shape = rows.sizes().vec();
  shape[0] = static_cast<int64_t>(indices.size());
  at::Tensor out = batch_tensor(shape, rows.scalar_type(), context.pinned);
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
    : TensorDataset({{"data", std::move(data)}, {"target", std::move(target)}}, std::move(name)) {
  classes_ = classes;
}

TensorDataset::TensorDataset(tensor::NamedTensorList tensors, std::string name)
    : tensors_(std::move(tensors)), name_(std::move(name)) {
  if (tensors_.empty())
    throw usage_error({.refused = concat("dataset ", name_, " without a tensor")});
  for (auto& [role, tensor] : tensors_) tensor = checked(tensor, role);
  for (const auto& [role, tensor] : tensors_) {
    if (tensor.size(0) == size()) continue;
    throw usage_error({.refused = concat("dataset ", name_),
                       .rule = concat(tensors_[0].first, " and ", role, " have as many rows"),
                       .value = concat(size(), " and ", tensor.size(0))});
  }
}

int64_t TensorDataset::size() const { return tensors_[0].second.size(0); }

uint32_t TensorDataset::fingerprint() const {
  uint32_t sum = 0;
  for (const auto& [role, tensor] : tensors_) sum = fingerprint_of(tensor, sum);
  return sum;
}

at::Tensor TensorDataset::targets() const {
  for (const auto& [role, tensor] : tensors_) {
    if (classes_ > 0 && role == "target" && tensor.dim() == 1 && !tensor.is_floating_point())
      return tensor.to(at::kLong);
  }
  return {};
}

DataSpec TensorDataset::spec() const {
  const at::Tensor& first = tensors_[0].second;
  return {.name = name_,
          .sample_shape = first.sizes().slice(1).vec(),
          .classes = classes_,
          .dtype = first.scalar_type()};
}

Batch TensorDataset::load(std::span<const int64_t> indices, const SampleContext& context) const {
  Batch batch{.indices = {indices.begin(), indices.end()}};
  for (const auto& [role, tensor] : tensors_)
    batch.tensors.emplace_back(role, copy_rows(tensor, indices, context));
  return batch;
}

}  // namespace muster::data
