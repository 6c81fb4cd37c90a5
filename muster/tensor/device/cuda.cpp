#include "muster/tensor/device/cuda.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>
#include <unistd.h>

namespace muster::tensor {
namespace {

std::string find_cuda() {
  if (::access("/dev/nvidiactl", F_OK) != 0 && ::access("/dev/dxg", F_OK) != 0)
    return "this machine has no NVIDIA device";
  // Registers the CUDA kernels and the device guard as it is loaded; global, since our NCCL module
  // needs its symbols.
  if (::dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    return std::string("LibTorch's CUDA half could not be opened: ") + ::dlerror();
  }
  if (!c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA))
    return "this LibTorch has no CUDA support";
  if (c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA)->deviceCount() == 0)
    return "the CUDA driver reports no device";
  return "";
}

}  // namespace

const std::string& load_cuda() {
  static const std::string why_not = find_cuda();
  return why_not;
}

}  // namespace muster::tensor
