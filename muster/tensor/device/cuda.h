// CUDA is found at run time: nothing here links it.
#pragma once

#include <string>

namespace muster::tensor {

/// Opens LibTorch's CUDA half if this machine has an NVIDIA device. Empty if CUDA tensors can be
/// used from now on, else the reason why not, in words. The answer is found once per process; any
/// thread.
const std::string& load_cuda();

/// Where the driver says that CUDA's device `index` is: "0000:3b:00.0". CUDA numbers devices by speed
/// and by CUDA_VISIBLE_DEVICES, everybody else by this. Empty where it cannot be told, also without
/// CUDA. Any thread.
std::string cuda_bus_id(int index);

}  // namespace muster::tensor
