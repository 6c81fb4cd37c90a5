// Which tensors are a module's and an optimizer's.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

namespace muster::memory {

/// The state of torch::optim's optimizers; empty for others, which have types of their own.
std::vector<at::Tensor> state_tensors(const torch::optim::Optimizer& optimizer);

}  // namespace muster::memory
