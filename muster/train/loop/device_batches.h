// The way of a rank's batches from the loader to its device.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <torch/nn/module.h>

#include "muster/data/dataset.h"
#include "muster/train/plan/fit_plan.h"

namespace muster::train {

/// Where this rank computes: the plan's device, or that of its thread.
c10::Device device_of_rank(const FitPlan& plan, int rank);

/// Where the module is: the device of its first parameter or buffer, else the CPU.
c10::Device device_of(const torch::nn::Module& module);

/// Used by the rank's own thread.
class DeviceBatches {
 public:
  explicit DeviceBatches(c10::Device device, bool channels_last = false)
      : device_(device), channels_last_(channels_last) {}

  /// The batch with all of its tensors on the device; as it is where that is the CPU. With
  /// `channels_last` tensors of numbers // [N, C, H, W] are in that memory format.
  data::Batch operator()(data::Batch batch) const;

  c10::Device device() const { return device_; }

 private:
  c10::Device device_;
  bool channels_last_;
};

}  // namespace muster::train
