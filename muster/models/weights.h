// Weights from elsewhere into a model: torchvision's state dicts, and those of the Python twins.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>

namespace muster::models {

/// Copies a state dict (names as `model.state_dict()` has them, as read from a safetensors file)
/// into the model's parameters and buffers.
///
/// Every name must be the model's, every tensor of the model must be there, and shapes must be
/// equal. Floating-point tensors are converted to the model's dtype (half-precision files);
/// integers must be integers. BatchNorm's num_batches_tracked may be missing, as in state dicts of
/// PyTorch before 0.4.1, and then stays as it is. Throws a usage error that names the tensor, with
/// the nearest name of the model for an unknown one; nothing is changed then.
void load_weights(torch::nn::Module& model,
                  const std::vector<std::pair<std::string, at::Tensor>>& weights);

}  // namespace muster::models
