// VGG, as torchvision builds it. zoo/vgg*.cpp are the members of the family.
#pragma once

#include <span>
#include <vector>

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "muster/models/layers/dropout.h"
#include "muster/models/model.h"

namespace muster::models {

struct VggOptions {
  bool batch_norm = false;  ///< BatchNorm after each convolution: torchvision's vgg11_bn, vgg16_bn
  double dropout = 0.5;     ///< after each of the two hidden layers of the classifier
  int64_t hidden = 4096;    ///< width of the two hidden layers; 4096 is torchvision's
};

/// Source: Simonyan and Zisserman 2014, arXiv 1409.1556, table 1, as torchvision 0.29 has it: same
/// parameter and buffer names (features.0 …, classifier.0, classifier.3, classifier.6), and the
/// same initial weights for the same torch::manual_seed. Images of 3 channels, at least 32 x 32.
class VggImpl : public Classifier {
 public:
  /// `widths`: output channels of each 3x3 convolution; 0 stands for 2x2 max pooling. Throws a
  /// usage error for a dropout outside 0 … 1 or a hidden width below 1.
  VggImpl(const ImageShape& shape, std::span<const int64_t> widths, const VggOptions& options = {});
  /// "stage1" to "stage5", convolutions with the pooling behind them, and "classifier".
  std::vector<ModelPart> parts() override;

 private:
  struct Layer {  ///< a pooling where it has no convolution
    torch::nn::Conv2d conv{nullptr};
    torch::nn::BatchNorm2d norm{nullptr};
  };
  using Stage = std::vector<Layer>;
  static at::Tensor run(Stage& stage, at::Tensor x);
  at::Tensor classify(at::Tensor x);
  int64_t add_features(int64_t channels, std::span<const int64_t> widths, bool batch_norm);
  void add_classifier(int64_t features, int64_t classes, const VggOptions& options);

  std::vector<Stage> stages_;
  std::vector<torch::nn::Linear> linear_;  ///< 3
  std::vector<Dropout> dropout_;           ///< 2
};
TORCH_MODULE(Vgg);

inline constexpr Param kVggParams[] = {
    param<&VggOptions::batch_norm>("batch_norm", "BatchNorm after each convolution (vgg*_bn)"),
    param<&VggOptions::dropout>("dropout", "share set to zero behind both hidden layers"),
    param<&VggOptions::hidden>("hidden", "width of the two hidden layers of the classifier")};

/// For the entries: options from `params` for a member of the family.
std::shared_ptr<Classifier> make_vgg(const ImageShape& shape,
                                     const ParamValues& params,
                                     std::span<const int64_t> widths,
                                     std::string_view name);

}  // namespace muster::models
