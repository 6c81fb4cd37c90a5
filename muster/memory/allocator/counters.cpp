#include "muster/memory/allocator/counters.h"

#include <c10/core/CachingDeviceAllocator.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::memory {
namespace {

c10::DeviceAllocator& caching_allocator(c10::Device device) {
  auto* const allocator =
      device.is_cpu() ? nullptr
                      : dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
  if (allocator != nullptr) return *allocator;
  throw environment_error({.refused = concat("memory counters of ", device.str()),
                           .rule = "a device with a caching allocator keeps them",
                           .hint = "those of the CPU are cpu_counters()"});
}

}  // namespace

Counters device_counters(c10::Device device) {
  c10::DeviceAllocator& allocator = caching_allocator(device);
  if (!allocator.initialized()) return {};
  const auto stats = allocator.getDeviceStats(device.index());
  constexpr size_t kAll = 0;  // StatType::AGGREGATE: over all pools
  return {.current = stats.allocated_bytes[kAll].current,
          .peak = stats.allocated_bytes[kAll].peak,
          .allocations = stats.allocation[kAll].allocated,
          .requested = stats.requested_bytes[kAll].current};
}

void reset_device_peak(c10::Device device) {
  c10::DeviceAllocator& allocator = caching_allocator(device);
  if (allocator.initialized()) allocator.resetPeakStats(device.index());
}

}  // namespace muster::memory
