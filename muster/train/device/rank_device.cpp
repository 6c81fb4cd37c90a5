#include "muster/train/device/rank_device.h"

#include <ATen/core/Tensor.h>

namespace muster::train {

c10::Device device_of_rank(const FitPlan& plan, int rank) {
  return plan.threads > 0 ? plan.devices.at(static_cast<size_t>(rank)) : plan.devices.at(0);
}

c10::Device device_of(const torch::nn::Module& module) {
  for (const at::Tensor& parameter : module.parameters()) return parameter.device();
  for (const at::Tensor& buffer : module.buffers()) return buffer.device();
  return c10::kCPU;
}

std::optional<c10::ScalarType> input_dtype_of(const torch::nn::Module& module) {
  for (const at::Tensor& parameter : module.parameters()) {
    const c10::ScalarType dtype = parameter.scalar_type();
    if (dtype == at::kBFloat16 || dtype == at::kHalf) return dtype;
  }
  return std::nullopt;
}

}  // namespace muster::train
