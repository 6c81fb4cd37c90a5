#include "muster/memory/allocator/counters.h"

#include <exception>

#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::memory {
namespace {

c10::DeviceAllocator& caching_allocator(c10::Device device) {
  const bool known = !device.is_cpu() && c10::impl::hasDeviceGuardImpl(device.type());
  auto* const allocator =
      known ? dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type())) : nullptr;
  if (allocator != nullptr) return *allocator;
  throw environment_error({.refused = concat("memory counters of ", device.str()),
                           .rule = "a device with a caching allocator keeps them",
                           .hint = "those of the CPU are cpu_counters()"});
}

/// The statistics of pinned memory have had two sets of names.
template <class Stats>
Counters pinned_from(const Stats& stats) {
  if constexpr (requires { stats.active_bytes.peak; }) {
    return {.current = stats.active_bytes.current,
            .peak = stats.active_bytes.peak,
            .allocations = stats.active_requests.allocated,
            .requested = std::nullopt};
  } else {
    return {.current = stats.allocated_bytes.current,
            .peak = stats.allocated_bytes.peak,
            .allocations = stats.allocation.allocated,
            .requested = std::nullopt};
  }
}

/// The allocator of a kind's pinned memory.
at::HostAllocator& pinned_allocator(c10::DeviceType kind) {
  at::HostAllocator* allocator = nullptr;
  try {
    allocator = at::getHostAllocator(kind);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): LibTorch's refusal of a kind
  }
  if (allocator != nullptr) return *allocator;
  throw environment_error(
      {.refused = concat("counters of the pinned memory of ", c10::DeviceTypeName(kind, true)),
       .rule = "the kind of device has a caching allocator of pinned memory"});
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

int64_t waiting_bytes(c10::Device device) {
  c10::DeviceAllocator& allocator = caching_allocator(device);
  if (!allocator.initialized()) return 0;
  const auto stats = allocator.getDeviceStats(device.index());
  constexpr size_t kAll = 0;  // StatType::AGGREGATE
  return stats.active_bytes[kAll].current - stats.allocated_bytes[kAll].current;
}

int64_t live_device_blocks(c10::Device device) {
  c10::DeviceAllocator& allocator = caching_allocator(device);
  if (!allocator.initialized()) return 0;
  constexpr size_t kAll = 0;  // StatType::AGGREGATE
  return allocator.getDeviceStats(device.index()).allocation[kAll].current;
}

void reset_device_peak(c10::Device device) {
  c10::DeviceAllocator& allocator = caching_allocator(device);
  if (allocator.initialized()) allocator.resetPeakStats(device.index());
}

Counters pinned_counters(c10::DeviceType kind) {
  return pinned_from(pinned_allocator(kind).get_stats());
}

int64_t held_pinned_bytes(c10::DeviceType kind) {
  return pinned_allocator(kind).get_stats().allocated_bytes.current;
}

}  // namespace muster::memory
