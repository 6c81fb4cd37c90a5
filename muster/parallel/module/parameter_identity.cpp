#include "muster/parallel/module/parameter_identity.h"

#include <unordered_set>

#include <torch/csrc/autograd/variable.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::parallel {
namespace {

constexpr const char* kHint =
    "move, convert or change the module first, wrap it afterwards; to change it later, make a new "
    "DistributedDataParallel";

/// The node to which the Reducer's hook belongs. A pointer to compare, not to follow.
const void* accumulator_of(const at::Tensor& parameter) {
  return torch::autograd::impl::try_get_grad_accumulator(parameter).get();
}

}  // namespace

ParameterIdentity::ParameterIdentity(NamedTensors parameters)
    : parameters_(std::move(parameters)) {}

void ParameterIdentity::record_hooks(const NamedTensors& averaged) {
  std::unordered_set<const void*> hooked;
  for (const auto& [name, parameter] : averaged) hooked.insert(parameter.unsafeGetTensorImpl());
  accumulators_.clear();
  for (const auto& [name, parameter] : parameters_) {
    const bool ours = hooked.contains(parameter.unsafeGetTensorImpl());
    accumulators_.push_back(ours ? accumulator_of(parameter) : nullptr);
  }
}

void ParameterIdentity::check_hooks() const {
  for (size_t i = 0; i < accumulators_.size(); ++i) {
    const at::Tensor& parameter = parameters_[i].second;
    if (accumulators_[i] == nullptr || accumulators_[i] == accumulator_of(parameter)) continue;
    throw usage_error(
        {.refused = concat("parameter ", parameters_[i].first),
         .rule = "a wrapped module is not moved to another device or dtype: its "
                 "gradients would not be averaged any more",
         .value = concat(
             c10::toString(parameter.scalar_type()), " on ", parameter.device().str(), " now"),
         .hint = kHint});
  }
}

bool ParameterIdentity::holds(const NamedTensors& now) const {
  if (now.size() != parameters_.size()) return false;
  for (size_t i = 0; i < now.size(); ++i) {
    if (!now[i].second.is_same(parameters_[i].second)) return false;
  }
  return true;
}

void ParameterIdentity::refuse(const NamedTensors& now) const {
  std::string found = "none";
  for (size_t i = 0; i < now.size(); ++i) {
    if (i < parameters_.size() && now[i].second.is_same(parameters_[i].second)) continue;
    found = now[i].first;
    break;
  }
  if (found == "none" && now.size() < parameters_.size()) found = parameters_[now.size()].first;
  throw usage_error({.refused = concat("parameter ", found),
                     .rule = "a wrapped module keeps the parameters it was wrapped with: a new one "
                             "is not averaged",
                     .hint = kHint});
}

}  // namespace muster::parallel
