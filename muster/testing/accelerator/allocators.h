// The memory of fake devices as LibTorch's allocators.
#pragma once

#include <optional>

#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>

namespace muster::testing {

/// Of tensors of the devices, at the addresses that are shown. Lives as long as the process.
c10::DeviceAllocator* device_allocator();

/// The process's CPU allocator from now on: `cpu`, and within a kernel of a device that device's
/// memory (Note [Kernels in place]).
c10::Allocator* make_kernel_allocator(c10::Allocator* cpu);

/// For its life, what this thread allocates for the CPU is `device`'s memory; -1: the CPU's.
class InKernel {
 public:
  explicit InKernel(c10::DeviceIndex device);
  ~InKernel();
  InKernel(const InKernel&) = delete;
  InKernel& operator=(const InKernel&) = delete;

 private:
  c10::DeviceIndex before_;
};

/// Memory that a kernel took, under its device's label. `memory` keeps its address, but no longer
/// frees it. Nothing, if another allocator made it.
std::optional<c10::DataPtr> shown_instead(c10::DataPtr& memory, c10::DeviceIndex device);

}  // namespace muster::testing
