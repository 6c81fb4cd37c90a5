#include "muster/train/optimizer.h"

#include "muster/base/text.h"

namespace muster::train {

void Optimizer::zero_grad() {
  for (auto& [name, parameter] : parameters_) parameter.mutable_grad() = at::Tensor();
}

void Optimizer::set_momentum(double momentum) {
  throw usage_error({.refused = concat("momentum ", momentum),
                     .rule = "this optimizer has neither momentum nor beta1 to set"});
}

}  // namespace muster::train
