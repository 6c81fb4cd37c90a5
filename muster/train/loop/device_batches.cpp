#include "muster/train/loop/device_batches.h"

#include <utility>

namespace muster::train {

c10::Device device_of_rank(const FitPlan& plan, int rank) {
  return plan.threads > 0 ? plan.devices.at(static_cast<size_t>(rank)) : plan.devices.at(0);
}

c10::Device device_of(const torch::nn::Module& module) {
  for (const at::Tensor& parameter : module.parameters()) return parameter.device();
  for (const at::Tensor& buffer : module.buffers()) return buffer.device();
  return c10::kCPU;
}

data::Batch DeviceBatches::operator()(data::Batch batch) const {
  if (device_.is_cpu() && !channels_last_) return batch;
  for (auto& [name, tensor] : batch.tensors) {
    if (!tensor.defined()) continue;
    tensor = tensor.to(device_);
    if (channels_last_ && tensor.dim() == 4 && tensor.is_floating_point())
      tensor = tensor.contiguous(at::MemoryFormat::ChannelsLast);
  }
  return batch;
}

}  // namespace muster::train
