// Tensors by name, in an order that means something.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace muster::tensor {

using NamedTensorList = std::vector<std::pair<std::string, at::Tensor>>;

}  // namespace muster::tensor
