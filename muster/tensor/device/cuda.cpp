#include "muster/tensor/device/cuda.h"

#include <cctype>

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

std::string cuda_bus_id(int index) {
  if (!load_cuda().empty()) return "";
  // Of CUDA's runtime, which came with LibTorch's half and is visible to all.
  using Get = int (*)(char* text, int room, int device);
  static const Get get = reinterpret_cast<Get>(::dlsym(RTLD_DEFAULT, "cudaDeviceGetPCIBusId"));
  char text[32] = {};
  if (get == nullptr || get(text, sizeof text, index) != 0) return "";
  std::string id = text;
  for (char& letter : id)
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return id;
}

}  // namespace muster::tensor
