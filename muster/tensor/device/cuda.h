// CUDA is found at run time: nothing here links it.
#pragma once

#include <string>

namespace muster::tensor {

/// Opens LibTorch's CUDA half if this machine has an NVIDIA device. Empty if CUDA tensors can be
/// used from now on, else the reason why not, in words. The answer is found once per process; any
/// thread.
const std::string& load_cuda();

}  // namespace muster::tensor
