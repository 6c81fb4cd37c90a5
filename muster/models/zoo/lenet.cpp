#include "muster/models/zoo/lenet.h"

#include <ATen/ops/max_pool2d.h>

namespace muster::models {
namespace {

int64_t padding(const ImageShape& shape) {
  return std::min(shape.height, shape.width) < 32 ? 2 : 0;
}

/// Pixels left of `size` after both 5x5 convolutions and both poolings.
int64_t after_features(int64_t size, int64_t pad) { return ((size + 2 * pad - 4) / 2 - 4) / 2; }

}  // namespace

LenetImpl::LenetImpl(const ImageShape& shape) {
  const int64_t pad = padding(shape);
  conv1_ = register_module(
      "conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(shape.channels, 6, 5).padding(pad)));
  conv2_ = register_module("conv2", torch::nn::Conv2d(6, 16, 5));
  fc1_ = register_module(
      "fc1",
      torch::nn::Linear(16 * after_features(shape.height, pad) * after_features(shape.width, pad),
                        120));
  fc2_ = register_module("fc2", torch::nn::Linear(120, 84));
  fc3_ = register_module("fc3", torch::nn::Linear(84, shape.classes));
}

std::vector<ModelPart> LenetImpl::parts() {
  return {{.name = "conv1",
           .modules = {conv1_.ptr()},
           .forward =
               [this](const at::Tensor& images) {
                 return at::max_pool2d(conv1_->forward(images).relu(), 2);
               }},
          {.name = "conv2",
           .modules = {conv2_.ptr()},
           .forward =
               [this](const at::Tensor& x) {
                 return at::max_pool2d(conv2_->forward(x).relu(), 2).flatten(1);
               }},
          {.name = "fc1",
           .modules = {fc1_.ptr()},
           .forward = [this](const at::Tensor& x) { return fc1_->forward(x).relu(); }},
          {.name = "fc2",
           .modules = {fc2_.ptr()},
           .forward = [this](const at::Tensor& x) { return fc2_->forward(x).relu(); }},
          {.name = "fc3", .modules = {fc3_.ptr()}, .forward = [this](const at::Tensor& x) {
             return fc3_->forward(x);
           }}};
}

namespace {

std::shared_ptr<Classifier> make_lenet(const ImageShape& shape, const ParamValues& params) {
  struct None {};
  resolve_params<None>({}, params, "model lenet");
  return std::make_shared<LenetImpl>(shape);
}

}  // namespace

extern constinit const ModelEntry lenet_entry{
    "lenet", "LeNet-5 (1998) with ReLU and max pooling", 16, 0, {}, &make_lenet};

}  // namespace muster::models
