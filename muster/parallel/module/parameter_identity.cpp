#include "muster/parallel/module/parameter_identity.h"

#include <string>
#include <utility>

#include <torch/csrc/autograd/variable.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tensor/dtype_name.h"

namespace muster::parallel {
namespace {

constexpr const char* kHint =
    "move, convert, freeze or change the module first, wrap it afterwards; to change it later, "
    "wrap it anew";

using Accumulator =
    decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));

/// `Weak` is a weak Accumulator, whatever this LibTorch takes.
template <class Weak>
void set_accumulator(void (*set)(const at::Tensor&, Weak),
                     const at::Tensor& parameter,
                     const Accumulator& accumulator) {
  set(parameter, Weak(accumulator));
}

std::string kind_of(at::ScalarType dtype, at::IntArrayRef sizes, at::Device device) {
  return concat(tensor::dtype_name(dtype), sizes, " on ", device.str());
}

}  // namespace

struct ParameterIdentity::Averaged {
  std::string name;
  at::Tensor parameter;
  at::ScalarType dtype;
  at::Device device;
  std::vector<int64_t> sizes;
  Accumulator accumulator;  // the node with the hooks; null if nobody has any

  bool is_of_that_kind() const {
    return parameter.scalar_type() == dtype && parameter.device() == device &&
           parameter.sizes() == sizes;
  }
};

ParameterIdentity::ParameterIdentity(NamedTensors parameters)
    : parameters_(std::move(parameters)) {}

ParameterIdentity::~ParameterIdentity() = default;

void ParameterIdentity::record(const NamedTensors& averaged, const NamedTensors& frozen) {
  frozen_ = frozen;
  averaged_.clear();
  for (const auto& [name, parameter] : averaged) {
    averaged_.push_back(
        {.name = name,
         .parameter = parameter,
         .dtype = parameter.scalar_type(),
         .device = parameter.device(),
         .sizes = parameter.sizes().vec(),
         .accumulator = torch::autograd::impl::try_get_grad_accumulator(parameter)});
  }
}

void ParameterIdentity::check() {
  for (const Averaged& each : averaged_) {
    const at::Tensor& parameter = each.parameter;
    if (!each.is_of_that_kind()) {
      throw usage_error(
          {.refused = concat("parameter ", each.name),
           .rule = concat("a wrapped module keeps its dtype, shapes and device: ",
                          kind_of(each.dtype, each.sizes, each.device),
                          " when it was wrapped"),
           .value = concat(kind_of(parameter.scalar_type(), parameter.sizes(), parameter.device()),
                           " now"),
           .hint = kHint});
    }
    if (!each.accumulator ||
        each.accumulator == torch::autograd::impl::try_get_grad_accumulator(parameter))
      continue;
    // It accumulates into the same tensor: graphs made from now on lead to the hooks again.
    set_accumulator(&torch::autograd::impl::set_grad_accumulator, parameter, each.accumulator);
  }
  for (const auto& [name, parameter] : frozen_) {
    if (!parameter.requires_grad()) continue;
    throw usage_error({.refused = concat("parameter ", name),
                       .rule = "a parameter that is trained was so when the module was wrapped: "
                               "else its gradient is not averaged",
                       .value = "requires_grad is true now",
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

void ParameterIdentity::throw_changed(const NamedTensors& now) const {
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
