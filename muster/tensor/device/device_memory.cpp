#include "muster/tensor/device/device_memory.h"

#include <fstream>
#include <string>

#include <c10/core/CachingDeviceAllocator.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::tensor {
namespace {

uint64_t available_host_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  while (file >> word) {
    uint64_t kib = 0;
    if (word == "MemAvailable:" && file >> kib) return kib << 10;
  }
  throw environment_error({.refused = "free memory of the CPU", .rule = "/proc/meminfo tells it"});
}

/// Allocated and reserved bytes over all pools are the first entry of each statistic.
uint64_t current(const c10::CachingAllocator::StatArray& stat) {
  constexpr auto kAggregate = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return static_cast<uint64_t>(stat[kAggregate].current);
}

}  // namespace

uint64_t free_bytes_of(c10::Device device) {
  if (device.is_cpu()) return available_host_bytes();
  c10::DeviceAllocator* allocator = c10::getDeviceAllocator(device.type());
  const uint64_t of_driver = allocator->getMemoryInfo(device.index()).first;
  if (!allocator->initialized()) return of_driver;
  const auto stats = allocator->getDeviceStats(device.index());
  return of_driver + current(stats.reserved_bytes) - current(stats.allocated_bytes);
}

}  // namespace muster::tensor
