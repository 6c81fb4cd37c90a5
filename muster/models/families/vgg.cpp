#include "muster/models/families/vgg.h"

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/max_pool2d.h>
#include <torch/nn/init.h>

#include "muster/base/text.h"
#include "muster/models/layers/layers.h"

namespace muster::models {
namespace {

constexpr int64_t kPooled = 7;  // height and width that the classifier sees

}  // namespace

VggImpl::VggImpl(const ImageShape& shape,
                 std::span<const int64_t> widths,
                 const VggOptions& options) {
  if (options.hidden < 1) {
    throw usage_error({.refused = "model vgg",
                       .rule = "hidden is at least 1",
                       .value = concat("hidden=", options.hidden)});
  }
  const int64_t channels = add_features(shape.channels, widths, options.batch_norm);
  add_classifier(channels * kPooled * kPooled, shape.classes, options);
  draw_convolutions(*this);
  for (auto& layer : linear_) {
    torch::nn::init::normal_(layer->weight, 0, 0.01);
    torch::nn::init::zeros_(layer->bias);
  }
}

// The numbers count torchvision's ReLU and MaxPool modules too. Returns the channels at the end.
int64_t VggImpl::add_features(int64_t channels, std::span<const int64_t> widths, bool batch_norm) {
  const auto group = add_group(*this, "features");
  int number = 0;
  for (const int64_t width : widths) {
    Layer& layer = features_.emplace_back();
    if (width == 0) {
      ++number;
      continue;
    }
    layer.conv = group->register_module(
        std::to_string(number++),
        torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, width, 3).padding(1)));
    if (batch_norm)
      layer.norm = group->register_module(std::to_string(number++), torch::nn::BatchNorm2d(width));
    ++number;
    channels = width;
  }
  return channels;
}

void VggImpl::add_classifier(int64_t features, int64_t classes, const VggOptions& options) {
  const auto group = add_group(*this, "classifier");
  const int64_t widths[] = {features, options.hidden, options.hidden, classes};
  for (int i = 0; i < 3; ++i) {
    linear_.push_back(
        group->register_module(std::to_string(3 * i), torch::nn::Linear(widths[i], widths[i + 1])));
    if (i < 2)
      dropout_.push_back(
          group->register_module(std::to_string(3 * i + 2), Dropout(options.dropout)));
  }
}

at::Tensor VggImpl::forward(at::Tensor images) {
  at::Tensor x = images;
  for (auto& layer : features_) {
    if (!layer.conv) {
      x = at::max_pool2d(x, 2);
      continue;
    }
    x = layer.conv->forward(x);
    if (layer.norm) x = layer.norm->forward(x);
    x.relu_();
  }
  x = at::adaptive_avg_pool2d(x, {kPooled, kPooled}).flatten(1);
  x = dropout_[0]->forward(linear_[0]->forward(x).relu_());
  x = dropout_[1]->forward(linear_[1]->forward(x).relu_());
  return linear_[2]->forward(x);
}

std::shared_ptr<Classifier> make_vgg(const ImageShape& shape,
                                     const ParamValues& params,
                                     std::span<const int64_t> widths,
                                     std::string_view name) {
  const auto options = resolve_params<VggOptions>(kVggParams, params, concat("model ", name));
  return std::make_shared<VggImpl>(shape, widths, options);
}

}  // namespace muster::models
