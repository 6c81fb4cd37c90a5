// Residual networks, as torchvision builds them. zoo/resnet*.cpp are the members of the family.
#pragma once

#include <array>
#include <vector>

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "muster/models/model.h"

namespace muster::models {

struct ResnetOptions {
  bool zero_init_residual = false;  ///< the last BatchNorm of each block starts at 0
};

/// One member of the family.
struct ResnetPlan {
  std::array<int64_t, 4> blocks;  ///< residual blocks of each of the four stages
  bool bottleneck = false;        ///< three convolutions (1x1, 3x3, 1x1) a block instead of two 3x3
};

/// A residual block. Two 3x3 convolutions, or a 1x1, a 3x3 and a 1x1 that widens by 4
/// ("bottleneck"; the stride is on the 3x3, which is ResNet v1.5), each with BatchNorm; ReLU
/// between them and after the sum with the input, which a strided 1x1 convolution fits first where
/// shapes differ. Parameters: conv1, bn1, conv2, bn2, [conv3, bn3,] [downsample.0, downsample.1].
class ResnetBlockImpl : public torch::nn::Module {
 public:
  ResnetBlockImpl(int64_t in, int64_t planes, int64_t stride, bool bottleneck);

  /// x // [N, in, H, W]  ->  [N, planes or 4 * planes, ceil(H / stride), ceil(W / stride)]
  at::Tensor forward(const at::Tensor& x);

  torch::nn::BatchNorm2d last_norm() const { return layers_.back().norm; }

 private:
  struct Layer {
    torch::nn::Conv2d conv{nullptr};
    torch::nn::BatchNorm2d norm{nullptr};
  };
  std::vector<Layer> layers_;
  Layer downsample_;  ///< empty where input and output have one shape
};
TORCH_MODULE(ResnetBlock);

/// Source: He et al. 2015, arXiv 1512.03385, as torchvision 0.29 has it: same parameter and buffer
/// names, and the same initial weights for the same torch::manual_seed. Images of 3 channels and
/// any size; with images of at most 32 pixels the last stage sees one position, so that a batch of
/// one cannot be trained on (BatchNorm), unless it is a part of one over all ranks.
class ResnetImpl : public Classifier {
 public:
  ResnetImpl(const ImageShape& shape, const ResnetPlan& plan, const ResnetOptions& options = {});
  /// "stem", each residual block ("layer1.0", …), "head".
  std::vector<ModelPart> parts() override;

 private:
  at::Tensor stem(const at::Tensor& images);
  at::Tensor head(const at::Tensor& x);
  std::vector<ResnetBlock> add_stage(int stage, int64_t blocks, bool bottleneck);

  int64_t width_ = 64;  ///< channels so far while building
  torch::nn::Conv2d conv1_{nullptr};
  torch::nn::BatchNorm2d bn1_{nullptr};
  std::vector<ResnetBlock> blocks_;
  torch::nn::Linear fc_{nullptr};
};
TORCH_MODULE(Resnet);

inline constexpr Param kResnetParams[] = {param<&ResnetOptions::zero_init_residual>(
    "zero_init_residual", "the last BatchNorm of each block starts at 0")};

/// For the entries: options from `params` for a member of the family.
std::shared_ptr<Classifier> make_resnet(const ImageShape& shape,
                                        const ParamValues& params,
                                        const ResnetPlan& plan,
                                        std::string_view name);

}  // namespace muster::models
