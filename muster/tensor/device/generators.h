// Generators of random numbers, of any kind of device.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

namespace muster::tensor {

/// One of its own, which nothing else draws from. Any thread. Throws LibTorch's error for a kind of
/// device that is not open.
at::Generator new_generator(c10::Device device);

/// LibTorch's default one of the device, which all threads share.
at::Generator default_generator(c10::Device device);

}  // namespace muster::tensor
