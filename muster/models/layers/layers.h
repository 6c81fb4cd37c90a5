// What the larger models are built of: torchvision's names without torch::nn::Sequential, and its
// initialisers.
#pragma once

#include <memory>
#include <string>

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>

namespace muster::models {

/// A module that only gives its children a common prefix: "features" of "features.0.weight".
/// torchvision's Sequentials become groups: layers without weights (ReLU, pooling) count for the
/// numbers in the names but are plain calls in forward.
inline std::shared_ptr<torch::nn::Module> add_group(torch::nn::Module& parent,
                                                    const std::string& name) {
  return parent.register_module(name, std::make_shared<torch::nn::Module>(name));
}

/// What torchvision does at the end of its constructors: every convolution below `model`, in the
/// order of registration, is drawn anew from N(0, 2 / fan_out) and its bias, if any, set to 0.
/// Source: He et al. 2015, section 2.2. From torch's default CPU generator.
void draw_convolutions(torch::nn::Module& model);

}  // namespace muster::models
