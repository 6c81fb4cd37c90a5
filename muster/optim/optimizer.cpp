#include "muster/optim/optimizer.h"

#include <cmath>

#include "muster/base/text.h"

namespace muster::optim {

void Optimizer::zero_grad() {
  for (auto& [name, parameter] : parameters_) parameter.mutable_grad() = at::Tensor();
}

std::vector<at::Tensor> Optimizer::parameters() {
  std::vector<at::Tensor> all;
  for (const auto& [name, parameter] : parameters_) all.push_back(parameter);
  return all;
}

void Optimizer::set_lr(double lr) {
  if (!(lr >= 0) || !std::isfinite(lr)) {
    throw usage_error({.refused = "learning rate",
                       .rule = "it is not negative, and finite",
                       .value = shortest(lr)});
  }
  lr_ = lr;
}

void Optimizer::set_momentum(double momentum) {
  throw usage_error({.refused = concat("momentum ", momentum),
                     .rule = "this optimizer has neither momentum nor beta1 to set"});
}

bool keeps_state(const OptimizerEntry& entry, const ParamValues& params, double most_momentum) {
  return entry.keeps_state == nullptr || entry.keeps_state(params, most_momentum);
}

}  // namespace muster::optim
