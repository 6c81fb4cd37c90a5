// Tensors by name, in an order that means something.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace muster::tensor {

using NamedTensorList = std::vector<std::pair<std::string, at::Tensor>>;

/// A tensor of a module, and what it is to become again.
struct LoadedTensor {
  std::string name;
  at::Tensor own, saved;  ///< of one shape and dtype, on any device
};

}  // namespace muster::tensor
