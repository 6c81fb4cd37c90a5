#include "muster/parallel/pipeline/tied_parameters.h"

#include <algorithm>

#include <ATen/core/grad_mode.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::parallel {
namespace {

const at::Tensor& parameter_of(const std::string& name, const NamedTensors& all) {
  for (const auto& [other, tensor] : all)
    if (other == name) return tensor;
  throw usage_error({.refused = concat("tied parameter ", name),
                     .rule = "it is a parameter of the pipeline, named block.parameter",
                     .hint = all.empty() ? "" : concat("the first one is ", all.front().first)});
}

}  // namespace

TiedParameters::TiedParameters(const std::vector<TiedParameter>& tied, const NamedTensors& all) {
  for (const TiedParameter& names : tied) {
    const at::Tensor& follower = parameter_of(names.follower, all);
    const at::Tensor& owner = parameter_of(names.owner, all);
    if (follower.is_same(owner) || is_follower(follower) || is_follower(owner))
      throw usage_error({.refused = concat("tied parameter ", names.follower),
                         .rule = "a parameter follows one other, which follows none",
                         .value = names.owner});
    for (const Pair& pair : pairs_)
      if (pair.owner.is_same(follower))
        throw usage_error({.refused = concat("tied parameter ", names.follower),
                           .rule = "a parameter that others follow follows none"});
    if (follower.sizes() != owner.sizes())
      throw usage_error({.refused = concat("tied parameter ", names.follower),
                         .rule = concat("it has the shape of ", names.owner),
                         .value = concat(follower.sizes(), " and ", owner.sizes())});
    pairs_.push_back({follower, owner});
  }
  copy_values();
}

bool TiedParameters::is_follower(const at::Tensor& parameter) const {
  return std::any_of(pairs_.begin(), pairs_.end(), [&](const Pair& pair) {
    return pair.follower.is_same(parameter);
  });
}

void TiedParameters::copy_values() {
  const at::NoGradGuard no_grad;
  for (Pair& pair : pairs_) {
    pair.follower.copy_(pair.owner);
  }
}

void TiedParameters::add_gradients() {
  const at::NoGradGuard no_grad;
  for (Pair& pair : pairs_) {
    const at::Tensor gradient = std::exchange(pair.follower.mutable_grad(), {});
    if (!gradient.defined()) continue;
    at::Tensor& sum = pair.owner.mutable_grad();
    const at::Tensor here = gradient.to(pair.owner.options());
    sum = sum.defined() ? sum.add_(here) : here;
  }
}

}  // namespace muster::parallel
