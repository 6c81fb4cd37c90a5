// The small convolutional network of the demo.
#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "muster/models/model.h"

namespace muster::models {

struct CnnOptions {
  int64_t width = 32;    ///< channels of the first convolution; the second has twice as many
  int64_t hidden = 128;  ///< width of the layer before the scores
};

/// Two 3x3 convolutions (stride 1, padding 1), each followed by BatchNorm, ReLU and 2x2 max
/// pooling, then Linear, ReLU, Linear. Parameters: conv1, bn1, conv2, bn2, fc1, fc2; the
/// convolutions have no bias, which BatchNorm would take away again.
class CnnImpl : public Classifier {
 public:
  explicit CnnImpl(const ImageShape& shape, const CnnOptions& options = {});
  /// "block1" and "block2", a convolution with what is behind it, "fc1", "fc2".
  std::vector<ModelPart> parts() override;

 private:
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr};
  torch::nn::BatchNorm2d bn1_{nullptr}, bn2_{nullptr};
  torch::nn::Linear fc1_{nullptr}, fc2_{nullptr};
};
TORCH_MODULE(Cnn);

}  // namespace muster::models
