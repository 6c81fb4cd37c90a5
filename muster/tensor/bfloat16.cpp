#include "muster/tensor/bfloat16.h"

#include <c10/core/GradMode.h>
#include <torch/nn/modules/batchnorm.h>

namespace muster::tensor {
namespace {

bool is_batch_norm(const torch::nn::Module& module) {
  return module.as<torch::nn::BatchNorm1d>() != nullptr ||
         module.as<torch::nn::BatchNorm2d>() != nullptr ||
         module.as<torch::nn::BatchNorm3d>() != nullptr;
}

}  // namespace

void to_bfloat16(torch::nn::Module& module) {
  const c10::NoGradGuard no_grad;
  const auto convert = [](at::Tensor tensor) {
    if (tensor.defined() && tensor.is_floating_point())
      tensor.set_data(tensor.detach().to(at::kBFloat16));
  };
  for (const auto& part : module.modules(/*include_self=*/false)) {
    if (is_batch_norm(*part)) continue;
    for (const at::Tensor& parameter : part->parameters(/*recurse=*/false)) convert(parameter);
    for (const at::Tensor& buffer : part->buffers(/*recurse=*/false)) convert(buffer);
  }
  for (const at::Tensor& parameter : module.parameters(/*recurse=*/false)) convert(parameter);
  for (const at::Tensor& buffer : module.buffers(/*recurse=*/false)) convert(buffer);
}

}  // namespace muster::tensor
