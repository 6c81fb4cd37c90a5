#include "muster/models/families/vgg.h"

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/max_pool2d.h>
#include <torch/nn/init.h>

#include "muster/base/text.h"
#include "muster/models/layers/layers.h"
#include "muster/models/layers/size_limits.h"
#include "muster/tensor/batch_norm.h"

namespace muster::models {
namespace {

constexpr int64_t kVggPooled = 7;       // height and width that the classifier sees
constexpr int64_t kMostVggWidth = 512;  // channels of the last convolutions

}  // namespace

VggImpl::VggImpl(const ImageShape& shape,
                 std::span<const int64_t> widths,
                 const VggOptions& options) {
  if (options.hidden < 1) {
    throw usage_error({.refused = "model vgg",
                       .rule = "hidden is at least 1",
                       .value = concat("hidden=", options.hidden)});
  }
  check_weights("vgg",
                {{kMostVggWidth, kVggPooled, kVggPooled, options.hidden},
                 {options.hidden, options.hidden},
                 {options.hidden, shape.classes}},
                concat("hidden=", options.hidden));
  const int64_t channels = add_features(shape.channels, widths, options.batch_norm);
  add_classifier(channels * kVggPooled * kVggPooled, shape.classes, options);
  draw_convolutions(*this);
  for (auto& layer : linear_) {
    torch::nn::init::normal_(layer->weight, 0, 0.01);
    torch::nn::init::zeros_(layer->bias);
  }
}

// The numbers count torchvision's ReLU and MaxPool modules too. A stage ends with its pooling.
// Returns the channels at the end.
int64_t VggImpl::add_features(int64_t channels, std::span<const int64_t> widths, bool batch_norm) {
  const auto group = add_group(*this, "features");
  int number = 0;
  bool is_whole = true;
  for (const int64_t width : widths) {
    if (is_whole) stages_.emplace_back();
    Layer& layer = stages_.back().emplace_back();
    is_whole = width == 0;
    if (is_whole) {
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
    linear_.emplace_back(
        group->register_module(std::to_string(3 * i), torch::nn::Linear(widths[i], widths[i + 1])));
    if (i < 2)
      dropout_.emplace_back(
          group->register_module(std::to_string(3 * i + 2), Dropout(options.dropout)));
  }
}

at::Tensor VggImpl::run(Stage& stage, at::Tensor x) {
  for (Layer& layer : stage) {
    if (!layer.conv) {
      x = at::max_pool2d(x, 2);
      continue;
    }
    x = layer.conv->forward(x);
    if (layer.norm) x = tensor::normalize(*layer.norm, x);
    x.relu_();
  }
  return x;
}

at::Tensor VggImpl::classify(at::Tensor x) {
  x = at::adaptive_avg_pool2d(x, {kVggPooled, kVggPooled}).flatten(1);
  x = dropout_[0]->forward(linear_[0]->forward(x).relu_());
  x = dropout_[1]->forward(linear_[1]->forward(x).relu_());
  return linear_[2]->forward(x);
}

std::vector<ModelPart> VggImpl::parts() {
  std::vector<ModelPart> parts;
  for (Stage& stage : stages_) {
    ModelPart part{.name = concat("stage", parts.size() + 1),
                   .modules = {},
                   .forward = [&stage](const at::Tensor& x) { return run(stage, x); }};
    for (const Layer& layer : stage) {
      if (layer.conv) part.modules.push_back(layer.conv.ptr());
      if (layer.norm) part.modules.push_back(layer.norm.ptr());
    }
    parts.push_back(std::move(part));
  }
  ModelPart last{.name = "classifier", .modules = {}, .forward = [this](const at::Tensor& x) {
                   return classify(x);
                 }};
  for (const auto& layer : linear_) last.modules.push_back(layer.ptr());
  for (const auto& layer : dropout_) last.modules.push_back(layer.ptr());
  parts.push_back(std::move(last));
  return parts;
}

std::shared_ptr<Classifier> make_vgg(const ImageShape& shape,
                                     const ParamValues& params,
                                     std::span<const int64_t> widths,
                                     std::string_view name) {
  const auto options = resolve_params<VggOptions>(kVggParams, params, concat("model ", name));
  return std::make_shared<VggImpl>(shape, widths, options);
}

}  // namespace muster::models
