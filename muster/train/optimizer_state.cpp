#include "muster/train/optimizer_state.h"

#include <algorithm>

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::train::detail {
namespace {

// Note [Layout of gradients]
// ATen's fused CPU kernels walk parameter, gradient and state as flat arrays and never look at
// strides, so a gradient that is expanded (that of a sum: stride 0) or transposed is read wrongly,
// past its end even; Python's fused=True does that in 2.15. A gradient whose strides are not its
// parameter's is therefore copied first. State is made with the parameter's strides. A parameter
// that has gaps or overlaps has no flat form and is refused.
at::Tensor laid_out_as(const at::Tensor& parameter, const at::Tensor& gradient) {
  if (gradient.strides() == parameter.strides()) return gradient;
  return at::empty_like(parameter).copy_(gradient);
}

}  // namespace

ReadyList ready(const NamedTensorList& parameters) {
  ReadyList out;
  out.indices.reserve(parameters.size());
  out.parameters.reserve(parameters.size());
  out.gradients.reserve(parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, parameter] = parameters[i];
    const at::Tensor& gradient = parameter.grad();
    if (!gradient.defined()) continue;
    if (gradient.layout() != at::kStrided || !parameter.is_non_overlapping_and_dense()) {
      throw usage_error({.refused = "optimizer step for parameter " + name,
                         .rule = "parameters and gradients are dense, without gaps or overlap",
                         .value = concat("parameter with strides ",
                                         parameter.strides(),
                                         ", gradient with layout ",
                                         gradient.layout())});
    }
    out.indices.push_back(i);
    out.parameters.push_back(parameter);
    out.gradients.push_back(laid_out_as(parameter, gradient));
  }
  return out;
}

StateIndex index_state(const TensorFile& file,
                       const NamedTensorList& parameters,
                       const std::vector<std::string_view>& kinds) {
  std::map<std::string, bool, std::less<>> known;
  for (const auto& [name, parameter] : parameters) {
    for (const std::string_view kind : kinds) known.emplace(concat(kind, "/", name), true);
  }
  StateIndex state;
  for (const auto& [name, tensor] : file.tensors) {
    if (!known.contains(name)) {
      std::vector<std::string> names;
      for (const auto& [key, unused] : known) names.push_back(key);
      throw usage_error({.refused = "optimizer state " + name,
                         .rule = "each tensor of the state belongs to a parameter",
                         .hint = suggestion(name, names)});
    }
    state.emplace(name, tensor);
  }
  return state;
}

std::vector<at::Tensor> Slots::of(const ReadyList& ready) {
  std::vector<at::Tensor> out;
  out.reserve(ready.indices.size());
  for (size_t k = 0; k < ready.indices.size(); ++k) {
    at::Tensor& tensor = tensors_[ready.indices[k]];
    if (!tensor.defined()) tensor = at::zeros_like(ready.parameters[k]);
    out.push_back(tensor);
  }
  return out;
}

void Slots::save(const NamedTensorList& parameters, NamedTensorList& into) const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].defined()) into.emplace_back(name_ + "/" + parameters[i].first, tensors_[i]);
  }
}

void Slots::load(const NamedTensorList& parameters, const StateIndex& state) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const auto& [name, parameter] = parameters[i];
    const auto found = state.find(name_ + "/" + name);
    if (found == state.end()) {
      tensors_[i] = at::Tensor();
      continue;
    }
    if (found->second.sizes() != parameter.sizes()) {
      throw usage_error({.refused = "optimizer state " + found->first,
                         .rule = concat("its shape is that of the parameter, ", parameter.sizes()),
                         .value = concat(found->second.sizes())});
    }
    // A copy: the state changes in place, and the file's tensors are the caller's.
    tensors_[i] = at::empty_like(parameter.detach()).copy_(found->second);
  }
}

}  // namespace muster::train::detail
