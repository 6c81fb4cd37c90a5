// Where a rank computes, and with what.
#pragma once

#include <optional>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <torch/nn/module.h>

#include "muster/train/plan/fit_plan.h"

namespace muster::train {

/// Where this rank computes: the plan's device, or that of its thread.
c10::Device device_of_rank(const FitPlan& plan, int rank);

/// Where the module is: the device of its first parameter or buffer, else the CPU.
c10::Device device_of(const torch::nn::Module& module);

/// What float32 inputs of the module are cast to: its 16 bits, where it has parameters of 16 bits.
std::optional<c10::ScalarType> input_dtype_of(const torch::nn::Module& module);

}  // namespace muster::train
