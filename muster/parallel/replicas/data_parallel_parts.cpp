#include "muster/parallel/replicas/data_parallel_parts.h"

#include <mutex>
#include <string>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/cat.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::parallel::detail {

at::Tensor Shard::of_tensor(const at::Tensor& tensor) const {
  if (!tensor.defined()) return tensor;
  const at::Tensor part = tensor.dim() == 0 ? tensor : tensor.narrow(0, from, rows);
  return ring != nullptr ? ring->copy(part) : part.to(device, /*non_blocking=*/true);
}

int64_t rows_of_tensors(const std::vector<at::Tensor>& tensors) {
  const at::Tensor* first = nullptr;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined() || tensor.dim() == 0) continue;
    if (first == nullptr) first = &tensor;
    if (tensor.size(0) == first->size(0)) continue;
    throw usage_error({.refused = "a batch of several tensors",
                       .rule = "all have as many rows (dimension 0)",
                       .value = concat(first->sizes(), " and ", tensor.sizes())});
  }
  if (first != nullptr) return first->size(0);
  throw usage_error(
      {.refused = "a batch without rows",
       .rule = "there is a tensor with a dimension in it",
       .hint = "tensors in a struct of your own are not seen: give them one by one, or overload "
               "for_each_tensor (muster/parallel/module/tensors.h)"});
}

void require_same_places(const std::vector<std::vector<at::Tensor>>& parts) {
  for (const auto& part : parts) {
    if (!part.empty() && part.size() == parts[0].size()) continue;
    throw usage_error({.refused = "the replicas' results",
                       .rule = "each holds the same number of tensors, one at least",
                       .value = concat(parts[0].size(), " and ", part.size())});
  }
}

at::Tensor gather_tensors(const std::vector<at::Tensor>& parts,
                          const std::vector<int64_t>& rows,
                          at::Device device) {
  std::vector<at::Tensor> here;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].defined() || parts[i].dim() == 0 || parts[i].size(0) != rows[i]) {
      throw usage_error(
          {.refused = "a result of forward",
           .rule = concat("it has a row for each of the ", rows[i], " given"),
           .value = parts[i].defined() ? concat(parts[i].sizes()) : "an undefined tensor"});
    }
    here.push_back(parts[i].to(device, /*non_blocking=*/!device.is_cpu()));
  }
  return here.size() == 1 ? here[0] : at::cat(here);
}

at::Tensor default_cpu_draws() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_default_cpu_draws(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

}  // namespace muster::parallel::detail
