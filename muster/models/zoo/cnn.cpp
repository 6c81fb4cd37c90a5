#include "muster/models/zoo/cnn.h"

#include <ATen/ops/max_pool2d.h>

#include "muster/base/text.h"
#include "muster/models/layers/size_limits.h"
#include "muster/tensor/batch_norm.h"

namespace muster::models {

CnnImpl::CnnImpl(const ImageShape& shape, const CnnOptions& options) {
  const std::string sizes = concat("width=", options.width, ",hidden=", options.hidden);
  if (options.width < 1 || options.hidden < 1) {
    throw usage_error(
        {.refused = "model cnn", .rule = "width and hidden are at least 1", .value = sizes});
  }
  check_weights("cnn",
                {{9, shape.channels, options.width},
                 {18, options.width, options.width},
                 {2, options.width, shape.height / 4, shape.width / 4, options.hidden},
                 {options.hidden, shape.classes}},
                sizes);
  const auto convolution = [](int64_t in, int64_t out) {
    return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).padding(1).bias(false));
  };
  conv1_ = register_module("conv1", convolution(shape.channels, options.width));
  bn1_ = register_module("bn1", torch::nn::BatchNorm2d(options.width));
  conv2_ = register_module("conv2", convolution(options.width, 2 * options.width));
  bn2_ = register_module("bn2", torch::nn::BatchNorm2d(2 * options.width));
  fc1_ =
      register_module("fc1",
                      torch::nn::Linear(2 * options.width * (shape.height / 4) * (shape.width / 4),
                                        options.hidden));
  fc2_ = register_module("fc2", torch::nn::Linear(options.hidden, shape.classes));
}

std::vector<ModelPart> CnnImpl::parts() {
  return {{.name = "block1",
           .modules = {conv1_.ptr(), bn1_.ptr()},
           .forward =
               [this](const at::Tensor& images) {
                 return at::max_pool2d(tensor::normalize(*bn1_, conv1_->forward(images)).relu_(),
                                       2);
               }},
          {.name = "block2",
           .modules = {conv2_.ptr(), bn2_.ptr()},
           .forward =
               [this](const at::Tensor& x) {
                 return at::max_pool2d(tensor::normalize(*bn2_, conv2_->forward(x)).relu_(), 2)
                     .flatten(1);
               }},
          {.name = "fc1",
           .modules = {fc1_.ptr()},
           .forward = [this](const at::Tensor& x) { return fc1_->forward(x).relu_(); }},
          {.name = "fc2", .modules = {fc2_.ptr()}, .forward = [this](const at::Tensor& x) {
             return fc2_->forward(x);
           }}};
}

namespace {

constexpr Param kCnnParams[] = {
    param<&CnnOptions::width>("width",
                              "channels of the first convolution; the second has twice as many"),
    param<&CnnOptions::hidden>("hidden", "width of the layer before the scores")};

std::shared_ptr<Classifier> make_cnn(const ImageShape& shape, const ParamValues& params) {
  return std::make_shared<CnnImpl>(shape,
                                   resolve_params<CnnOptions>(kCnnParams, params, "model cnn"));
}

}  // namespace

extern constinit const ModelEntry cnn_entry{
    "cnn", "two convolutions with BatchNorm, two linear layers", 4, 0, kCnnParams, &make_cnn};

}  // namespace muster::models
