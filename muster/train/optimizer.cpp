#include "muster/train/optimizer.h"

#include "muster/base/text.h"

namespace muster::train {

void Optimizer::zero_grad() {
  for (auto& [name, parameter] : parameters_) parameter.mutable_grad() = at::Tensor();
}

namespace detail {

void Slots::save(const NamedTensorList& parameters, NamedTensorList& into) const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].defined()) into.emplace_back(name_ + "/" + parameters[i].first, tensors_[i]);
  }
}

void Slots::load(const NamedTensorList& parameters, const TensorFile& file) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const auto& [name, parameter] = parameters[i];
    for (const auto& [key, tensor] : file.tensors) {
      if (key != name_ + "/" + name) continue;
      if (tensor.sizes() != parameter.sizes()) {
        throw usage_error(
            {.refused = "optimizer state " + key,
             .rule = concat("its shape is that of the parameter, ", parameter.sizes()),
             .value = concat(tensor.sizes())});
      }
      tensors_[i] = tensor.to(parameter.options());
    }
  }
}

}  // namespace detail
}  // namespace muster::train
