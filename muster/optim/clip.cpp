#include "muster/optim/clip.h"

#include <vector>

#include <ATen/ops/_foreach_clamp_max.h>
#include <ATen/ops/_foreach_clamp_min.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::optim {
namespace {

/// Tensors of one device and dtype, in the order of their first member, as foreach kernels want
/// them.
std::vector<std::vector<at::Tensor>> grouped(const std::vector<at::Tensor>& tensors) {
  std::vector<std::vector<at::Tensor>> groups;
  for (const at::Tensor& tensor : tensors) {
    std::vector<at::Tensor>* found = nullptr;
    for (auto& group : groups) {
      if (group[0].device() == tensor.device() && group[0].scalar_type() == tensor.scalar_type())
        found = &group;
    }
    if (found == nullptr) found = &groups.emplace_back();
    found->push_back(tensor);
  }
  return groups;
}

std::vector<at::Tensor> gradients_of(at::TensorList parameters) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  return gradients;
}

}  // namespace

at::Tensor clip_grad_norm(at::TensorList parameters, double max_norm, double norm_type) {
  if (!(max_norm >= 0) || !(norm_type > 0)) {
    throw usage_error({.refused = "gradient clipping",
                       .rule = "max_norm is not negative, and the order of the norm is above 0",
                       .value = concat("max_norm=", max_norm, ", norm_type=", norm_type)});
  }
  const c10::NoGradGuard no_grad;
  const std::vector<at::Tensor> gradients = gradients_of(parameters);
  if (gradients.empty()) return at::zeros({});
  const auto groups = grouped(gradients);
  std::vector<at::Tensor> norms;
  for (const auto& group : groups) {
    for (const at::Tensor& norm : at::_foreach_norm(group, norm_type))
      norms.push_back(norm.to(gradients[0].device()));
  }
  const at::Tensor total = at::linalg_vector_norm(at::stack(norms), norm_type);
  // Python's `max_norm / tensor` is reciprocal, then multiplication. Scaling by a clamped factor,
  // even where that is 1, spares asking the device whether it is.
  const at::Tensor factor = at::clamp(total.add(1e-6).reciprocal().mul(max_norm), {}, 1.0);
  for (const auto& group : groups) at::_foreach_mul_(group, factor.to(group[0].device()));
  return total;
}

void clip_grad_value(at::TensorList parameters, double limit) {
  if (!(limit >= 0)) {
    throw usage_error({.refused = "gradient clipping",
                       .rule = "the largest value is not negative",
                       .value = shortest(limit)});
  }
  const c10::NoGradGuard no_grad;
  for (const auto& group : grouped(gradients_of(parameters))) {
    at::_foreach_clamp_min_(group, -limit);
    at::_foreach_clamp_max_(group, limit);
  }
}

}  // namespace muster::optim
