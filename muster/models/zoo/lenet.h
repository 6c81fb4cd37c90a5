// LeNet-5, the modern form: ReLU and max pooling.
#pragma once

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "muster/models/model.h"

namespace muster::models {

/// Source: LeCun et al. 1998, "Gradient-based learning applied to document recognition", figure 2,
/// with ReLU for the squashing functions, max pooling for the trained subsampling and all maps
/// connected. The first convolution pads by 2 for images below 32 pixels, as the paper's 28-pixel
/// digits were padded. Parameters: conv1, conv2, fc1, fc2, fc3.
class LenetImpl : public Classifier {
 public:
  explicit LenetImpl(const ImageShape& shape);
  /// "conv1", "conv2", "fc1", "fc2", "fc3", each with what is behind it.
  std::vector<ModelPart> parts() override;

 private:
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr};
  torch::nn::Linear fc1_{nullptr}, fc2_{nullptr}, fc3_{nullptr};
};
TORCH_MODULE(Lenet);

}  // namespace muster::models
