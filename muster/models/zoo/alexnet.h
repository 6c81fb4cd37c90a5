// AlexNet, as torchvision builds it.
#pragma once

#include <vector>

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "muster/models/layers/dropout.h"
#include "muster/models/model.h"

namespace muster::models {

struct AlexnetOptions {
  double dropout = 0.5;   ///< before each of the two hidden layers of the classifier
  int64_t hidden = 4096;  ///< width of the two hidden layers; 4096 is torchvision's
};

/// Source: Krizhevsky 2014, arXiv 1404.5997 (one column), as torchvision 0.29 has it: same
/// parameter names (features.0 …, classifier.1, classifier.4, classifier.6), and the same initial
/// weights for the same torch::manual_seed. Images of 3 channels, at least 63 x 63.
class AlexnetImpl : public Classifier {
 public:
  /// Throws a usage error for a dropout outside 0 … 1 or a hidden width below 1.
  explicit AlexnetImpl(const ImageShape& shape, const AlexnetOptions& options = {});
  /// "conv1" to "conv5", each with the pooling behind it, and "fc1" to "fc3".
  std::vector<ModelPart> parts() override;

 private:
  std::vector<torch::nn::Conv2d> conv_;    ///< 5
  std::vector<torch::nn::Linear> linear_;  ///< 3
  std::vector<Dropout> dropout_;           ///< 2
};
TORCH_MODULE(Alexnet);

}  // namespace muster::models
