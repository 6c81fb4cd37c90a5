#include "muster/models/families/resnet.h"

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/max_pool2d.h>
#include <torch/nn/init.h>

#include "muster/base/text.h"
#include "muster/models/layers/layers.h"
#include "muster/tensor/batch_norm.h"

namespace muster::models {
namespace {

constexpr int64_t kExpansion = 4;  // of a bottleneck's last convolution

torch::nn::Conv2d convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  torch::nn::Conv2d made(
      torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
  return made;
}

}  // namespace

// The shortcut is made first, as torchvision does; it is registered last, which is the order of
// names and of the draws in draw_convolutions.
ResnetBlockImpl::ResnetBlockImpl(int64_t in, int64_t planes, int64_t stride, bool bottleneck)
    : torch::nn::Module("ResnetBlock") {
  const int64_t out = bottleneck ? planes * kExpansion : planes;
  if (stride != 1 || in != out) {
    downsample_.conv = convolution(in, out, 1, stride);
    downsample_.norm = torch::nn::BatchNorm2d(out);
  }
  const auto add = [&](int64_t from, int64_t to, int64_t kernel, int64_t step) {
    const size_t number = layers_.size() + 1;
    Layer& layer = layers_.emplace_back();
    layer.conv = register_module(concat("conv", number), convolution(from, to, kernel, step));
    layer.norm = register_module(concat("bn", number), torch::nn::BatchNorm2d(to));
  };
  if (bottleneck) {
    add(in, planes, 1, 1);
    add(planes, planes, 3, stride);
    add(planes, out, 1, 1);
  } else {
    add(in, planes, 3, stride);
    add(planes, planes, 3, 1);
  }
  if (downsample_.conv) {
    const auto group = add_group(*this, "downsample");
    group->register_module("0", downsample_.conv);
    group->register_module("1", downsample_.norm);
  }
}

at::Tensor ResnetBlockImpl::forward(const at::Tensor& x) {
  at::Tensor out = x;
  for (size_t i = 0; i < layers_.size(); ++i) {
    out = tensor::normalize(*layers_[i].norm, layers_[i].conv->forward(out));
    if (i + 1 < layers_.size()) out.relu_();
  }
  out += downsample_.conv ? tensor::normalize(*downsample_.norm, downsample_.conv->forward(x)) : x;
  return out.relu_();
}

ResnetImpl::ResnetImpl(const ImageShape& shape,
                       const ResnetPlan& plan,
                       const ResnetOptions& options) {
  conv1_ = register_module("conv1", convolution(shape.channels, width_, 7, 2));
  bn1_ = register_module("bn1", torch::nn::BatchNorm2d(width_));
  for (int stage = 0; stage < 4; ++stage) {
    for (auto& block : add_stage(stage, plan.blocks[static_cast<size_t>(stage)], plan.bottleneck))
      blocks_.push_back(std::move(block));
  }
  fc_ = register_module("fc", torch::nn::Linear(width_, shape.classes));
  draw_convolutions(*this);
  if (options.zero_init_residual) {
    for (const auto& block : blocks_) torch::nn::init::zeros_(block->last_norm()->weight);
  }
}

std::vector<ResnetBlock> ResnetImpl::add_stage(int stage, int64_t blocks, bool bottleneck) {
  const auto group = add_group(*this, concat("layer", stage + 1));
  const int64_t planes = int64_t{64} << stage;
  std::vector<ResnetBlock> made;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t stride = stage > 0 && i == 0 ? 2 : 1;
    made.emplace_back(
        group->register_module(std::to_string(i), ResnetBlock(width_, planes, stride, bottleneck)));
    width_ = bottleneck ? planes * kExpansion : planes;
  }
  return made;
}

at::Tensor ResnetImpl::stem(const at::Tensor& images) {
  return at::max_pool2d(tensor::normalize(*bn1_, conv1_->forward(images)).relu_(), 3, 2, 1);
}

at::Tensor ResnetImpl::head(const at::Tensor& x) {
  return fc_->forward(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
}

std::vector<ModelPart> ResnetImpl::parts() {
  std::vector<ModelPart> parts;
  parts.push_back({.name = "stem",
                   .modules = {conv1_.ptr(), bn1_.ptr()},
                   .forward = [this](const at::Tensor& images) { return stem(images); }});
  for (const auto& name : named_modules().keys()) {
    const auto block = std::dynamic_pointer_cast<ResnetBlockImpl>(named_modules()[name]);
    if (!block) continue;
    parts.push_back({.name = name, .modules = {block}, .forward = [block](const at::Tensor& x) {
                       return block->forward(x);
                     }});
  }
  parts.push_back({.name = "head", .modules = {fc_.ptr()}, .forward = [this](const at::Tensor& x) {
                     return head(x);
                   }});
  return parts;
}

std::shared_ptr<Classifier> make_resnet(const ImageShape& shape,
                                        const ParamValues& params,
                                        const ResnetPlan& plan,
                                        std::string_view name) {
  const auto options = resolve_params<ResnetOptions>(kResnetParams, params, concat("model ", name));
  return std::make_shared<ResnetImpl>(shape, plan, options);
}

}  // namespace muster::models
