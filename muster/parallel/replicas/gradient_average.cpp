#include "muster/parallel/replicas/gradient_average.h"

#include <unordered_set>
#include <utility>

#include <c10/core/GradMode.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/module/missing_gradients.h"
#include "muster/parallel/module/module_agreement.h"

namespace muster::parallel {
namespace {

/// Tied ones once.
template <class List>
NamedTensors each_once(const List& list) {
  std::unordered_set<const void*> seen;
  NamedTensors out;
  for (const auto& item : list) {
    if (item.value().defined() && seen.insert(item.value().unsafeGetTensorImpl()).second)
      out.emplace_back(item.key(), item.value());
  }
  return out;
}

/// In the order of memory, which is the ranks' own, for their parameters have one: channels last, say.
at::Tensor in_memory_order(const at::Tensor& tensor) {
  if (tensor.layout() != at::kStrided || tensor.is_contiguous()) return tensor;
  return tensor.is_non_overlapping_and_dense() ? tensor.as_strided({tensor.numel()}, {1}) : tensor;
}

}  // namespace

GradientAverage::GradientAverage(const torch::nn::Module& module, distributed::ProcessGroup group)
    : group_(std::move(group)) {
  NamedTensors frozen;
  for (auto& [name, parameter] : each_once(module.named_parameters()))
    (parameter.requires_grad() ? parameters_ : frozen).emplace_back(name, parameter);
  if (parameters_.empty()) {
    throw usage_error({.refused = "GradientAverage",
                       .rule = "the module has at least one parameter that requires gradients"});
  }
  const NamedTensors buffers = each_once(module.named_buffers());
  buffers_ = tensors_of(buffers);
  verify_same_module("gradients averaged after backward\n", parameters_, frozen, buffers, group_);
  if (group_.world_size() == 1) return;
  const c10::NoGradGuard no_grad;
  for (const NamedTensors* part : {&parameters_, &frozen}) {
    for (const auto& [name, tensor] : *part) group_.broadcast(in_memory_order(tensor.detach()));
  }
  share_buffers();
}

void GradientAverage::share_buffers() const {
  const c10::NoGradGuard no_grad;
  for (const at::Tensor& buffer : buffers_) group_.broadcast(in_memory_order(buffer.detach()));
}

void GradientAverage::average() {
  std::vector<std::string> missing;
  for (const auto& [name, parameter] : parameters_)
    if (!parameter.grad().defined()) missing.push_back(name);
  if (!missing.empty())
    throw missing_gradients(group_.rank(),
                            missing,
                            "in this step",
                            "let every output of forward take part in the loss");
  if (group_.world_size() == 1) return;
  const c10::NoGradGuard no_grad;
  // As c10d's Reducer: by the rounded 1 / world size, before the sum.
  const double share = 1.0 / group_.world_size();
  std::vector<distributed::Work> works;
  for (const auto& [name, parameter] : parameters_) {
    const at::Tensor gradient = in_memory_order(parameter.grad().detach());
    gradient.mul_(share);
    works.push_back(group_.all_reduce_async(gradient));
  }
  for (distributed::Work& work : works) work.wait();
  share_buffers();
}

}  // namespace muster::parallel
