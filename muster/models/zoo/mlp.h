// A multi-layer perceptron.
#pragma once

#include <torch/nn/modules/linear.h>

#include "muster/models/model.h"

namespace muster::models {

struct MlpOptions {
  int64_t hidden = 512;  ///< width of each hidden layer
  int64_t layers = 2;    ///< number of hidden layers, at least 1
};

/// Flatten, then Linear + ReLU `layers` times, then Linear. Parameters: fc1.weight, fc1.bias, …, as
/// in a Python module that registers its layers in this order.
class MlpImpl : public Classifier {
 public:
  explicit MlpImpl(const ImageShape& shape, const MlpOptions& options = {});
  /// "fc1", …, each with its ReLU.
  std::vector<ModelPart> parts() override;

 private:
  std::vector<torch::nn::Linear> layers_;
};
TORCH_MODULE(Mlp);

}  // namespace muster::models
