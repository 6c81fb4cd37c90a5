#include "muster/models/layers/layers.h"

#include <torch/nn/init.h>

namespace muster::models {

// Without the model itself: its constructor calls this, when no shared_ptr holds it yet.
void draw_convolutions(torch::nn::Module& model) {
  for (const auto& module : model.modules(/*include_self=*/false)) {
    const auto* conv = module->as<torch::nn::Conv2dImpl>();
    if (conv == nullptr) continue;
    torch::nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut, torch::kReLU);
    if (conv->bias.defined()) torch::nn::init::zeros_(conv->bias);
  }
}

}  // namespace muster::models
