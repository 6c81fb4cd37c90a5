#include "muster/models/zoo/alexnet.h"

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/max_pool2d.h>

#include "muster/base/text.h"
#include "muster/models/layers/layers.h"
#include "muster/models/layers/size_limits.h"

namespace muster::models {
namespace {

constexpr int64_t kAlexNetPooled = 6;  // height and width that the classifier sees

/// One convolution, its number in torchvision's `features`, and whether a pooling follows.
struct Layer {
  const char* name;
  int64_t in, out, kernel, stride, padding;
  bool pooled;
};
constexpr Layer kLayers[] = {{"0", 3, 64, 11, 4, 2, true},
                             {"3", 64, 192, 5, 1, 2, true},
                             {"6", 192, 384, 3, 1, 1, false},
                             {"8", 384, 256, 3, 1, 1, false},
                             {"10", 256, 256, 3, 1, 1, true}};

}  // namespace

AlexnetImpl::AlexnetImpl(const ImageShape& shape, const AlexnetOptions& options) {
  if (options.hidden < 1) {
    throw usage_error({.refused = "model alexnet",
                       .rule = "hidden is at least 1",
                       .value = concat("hidden=", options.hidden)});
  }
  check_weights("alexnet",
                {{256, kAlexNetPooled, kAlexNetPooled, options.hidden},
                 {options.hidden, options.hidden},
                 {options.hidden, shape.classes}},
                concat("hidden=", options.hidden));
  const auto features = add_group(*this, "features");
  for (const Layer& layer : kLayers) {
    const auto conv = torch::nn::Conv2dOptions(layer.in, layer.out, layer.kernel)
                          .stride(layer.stride)
                          .padding(layer.padding);
    conv_.push_back(features->register_module(layer.name, torch::nn::Conv2d(conv)));
  }
  const auto classifier = add_group(*this, "classifier");
  const auto linear = [&](const char* name, int64_t in, int64_t out) {
    linear_.push_back(classifier->register_module(name, torch::nn::Linear(in, out)));
  };
  for (const char* name : {"0", "3"})
    dropout_.push_back(classifier->register_module(name, Dropout(options.dropout)));
  linear("1", 256 * kAlexNetPooled * kAlexNetPooled, options.hidden);
  linear("4", options.hidden, options.hidden);
  linear("6", options.hidden, shape.classes);
}

std::vector<ModelPart> AlexnetImpl::parts() {
  std::vector<ModelPart> parts;
  for (size_t i = 0; i < conv_.size(); ++i) {
    const bool is_last = i + 1 == conv_.size();
    parts.push_back(
        {.name = concat("conv", i + 1),
         .modules = {conv_[i].ptr()},
         .forward = [this, i, is_last](const at::Tensor& images) {
           at::Tensor x = conv_[i]->forward(images).relu_();
           if (kLayers[i].pooled) x = at::max_pool2d(x, 3, 2);
           return is_last ? at::adaptive_avg_pool2d(x, {kAlexNetPooled, kAlexNetPooled}).flatten(1)
                          : x;
         }});
  }
  for (size_t i = 0; i < dropout_.size(); ++i) {
    parts.push_back({.name = concat("fc", i + 1),
                     .modules = {linear_[i].ptr(), dropout_[i].ptr()},
                     .forward = [this, i](const at::Tensor& x) {
                       return linear_[i]->forward(dropout_[i]->forward(x)).relu_();
                     }});
  }
  parts.push_back({.name = "fc3",
                   .modules = {linear_.back().ptr()},
                   .forward = [this](const at::Tensor& x) { return linear_.back()->forward(x); }});
  return parts;
}

namespace {

constexpr Param kAlexnetParams[] = {
    param<&AlexnetOptions::dropout>("dropout", "share set to zero before both hidden layers"),
    param<&AlexnetOptions::hidden>("hidden", "width of the two hidden layers of the classifier")};

std::shared_ptr<Classifier> make_alexnet(const ImageShape& shape, const ParamValues& params) {
  return std::make_shared<AlexnetImpl>(
      shape, resolve_params<AlexnetOptions>(kAlexnetParams, params, "model alexnet"));
}

}  // namespace

extern constinit const ModelEntry alexnet_entry{"alexnet",
                                                "AlexNet (2012), torchvision's layers and names",
                                                63,
                                                3,
                                                kAlexnetParams,
                                                &make_alexnet};

}  // namespace muster::models
