#include "muster/testing/accelerator/allocators.h"

#include <cstring>
#include <utility>

#include "muster/testing/accelerator/machine.h"

namespace muster::testing {
namespace {

/// Kernels make tensors of numbers; they would spoil exact peaks, and are charged as results.
constexpr size_t kNumberBytes = 16;

thread_local c10::DeviceIndex kernel_of = -1;

void free_shown(void* pointer) {
  if (pointer != nullptr) Machine::get().give_back(find_shown(pointer));
}

void free_of_kernel(void* pointer) {
  if (pointer != nullptr) Machine::get().give_back(find_for_kernels(pointer));
}

class FakeDeviceAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const c10::DeviceIndex index = current_device();
    const c10::Device device(kFake, index);
    if (bytes == 0) return {nullptr, device};
    char* const start = shown_address(index, Machine::get().allocate(index, bytes));
    return {start, start, &free_shown, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_shown; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(kernel_address(to), kernel_address(from), bytes);
  }

  bool initialized() override { return Machine::get().device_count() > 0; }
  void emptyCache(c10::MempoolId_t) override {
    for (int i = 0; i < Machine::get().device_count(); ++i)
      Machine::get().with_memory(i, [](DeviceMemory& memory) { memory.empty_cache(); });
  }
  void recordStream(const c10::DataPtr& memory, c10::Stream stream) override {
    const DeviceAddress address = find_shown(memory.get());
    if (address.device >= 0) Machine::get().record_stream(address, stream);
  }
  DeviceMemory::Stats getDeviceStats(c10::DeviceIndex device) override {
    return Machine::get().with_memory(device, [](DeviceMemory& memory) { return memory.stats(); });
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    Machine::get().with_memory(device, [](DeviceMemory& memory) { memory.reset_accumulated(); });
  }
  void resetPeakStats(c10::DeviceIndex device) override {
    Machine::get().with_memory(device, [](DeviceMemory& memory) { memory.reset_peak(); });
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    return Machine::get().with_memory(device, [](DeviceMemory& memory) {
      const auto reserved = static_cast<size_t>(memory.stats().reserved_bytes[0].current);
      const size_t all = memory.capacity();
      return std::pair(all > reserved ? all - reserved : 0, all);
    });
  }
};

c10::Allocator* real_cpu_allocator = nullptr;

class KernelAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (kernel_of < 0 || (bytes > 0 && bytes <= kNumberBytes))
      return real_cpu_allocator->allocate(bytes);
    if (bytes == 0) return {nullptr, c10::Device(c10::kCPU)};
    char* const start = kernel_address(kernel_of, Machine::get().allocate(kernel_of, bytes));
    return {start, start, &free_of_kernel, c10::Device(c10::kCPU)};
  }
  /// oneDNN takes its workspaces raw, in kernels of devices and elsewhere.
  c10::DeleterFnPtr raw_deleter() const override { return &free_any; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static void free_any(void* pointer) {
    if (find_for_kernels(pointer).device >= 0)
      free_of_kernel(pointer);
    else
      real_cpu_allocator->raw_deleter()(pointer);
  }
};

}  // namespace

c10::DeviceAllocator* device_allocator() {
  static auto* const allocator = new FakeDeviceAllocator;
  return allocator;
}

c10::Allocator* make_kernel_allocator(c10::Allocator* cpu) {
  real_cpu_allocator = cpu;
  return new KernelAllocator;
}

InKernel::InKernel(c10::DeviceIndex device) : before_(std::exchange(kernel_of, device)) {}

InKernel::~InKernel() { kernel_of = before_; }

std::optional<c10::DataPtr> shown_instead(c10::DataPtr& memory, c10::DeviceIndex device) {
  const DeviceAddress address = find_for_kernels(memory.get());
  if (address.device != device || memory.get_deleter() != &free_of_kernel) return std::nullopt;
  memory.release_context();
  char* const start = shown_address(device, address.offset);
  return c10::DataPtr(start, start, &free_shown, c10::Device(kFake, device));
}

}  // namespace muster::testing
