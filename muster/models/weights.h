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

/// The name of the layer that answers: the one with the model's last parameter, "fc" or
/// "classifier.6". Throws a usage error for a model without parameters, or with its last one in no
/// layer.
std::string head_of(const torch::nn::Module& model);

/// The same for all layers but that one, for weights of other classes: it keeps what it has, and
/// whatever the weights have of it is passed over, or missing.
void load_weights_but_head(torch::nn::Module& model,
                           const std::vector<std::pair<std::string, at::Tensor>>& weights);

}  // namespace muster::models
