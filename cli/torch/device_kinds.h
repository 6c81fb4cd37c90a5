// What --device may name.
#pragma once

#include "muster/tensor/device/device_kinds.h"
#include "muster/testing/accelerator/fake_kind.h"

namespace muster::cli {

/// cuda, and fake: with the second, any run can be tried as on a GPU where there is none.
inline tensor::DeviceKinds device_kinds() { return {tensor::kCudaDevices, testing::kFakeDevices}; }

}  // namespace muster::cli
