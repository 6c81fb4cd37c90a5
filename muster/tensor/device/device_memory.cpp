#include "muster/tensor/device/device_memory.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include <c10/core/CachingDeviceAllocator.h>

#include "muster/base/error.h"
#include "muster/base/host_memory.h"
#include "muster/base/text.h"

namespace muster::tensor {
namespace {

/// Allocated and reserved bytes over all pools are the first entry of each statistic.
uint64_t current(const c10::CachingAllocator::StatArray& stat) {
  constexpr auto kAggregate = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return static_cast<uint64_t>(stat[kAggregate].current);
}

/// Of one variable: "max_split_size_mb:64,per_process_memory_fraction:0.5".
double share_in(const std::string& settings) {
  for (const std::string& setting : split(settings, ',')) {
    const size_t colon = setting.find(':');
    if (colon == std::string::npos) continue;
    if (trim(setting.substr(0, colon)) != "per_process_memory_fraction") continue;
    const double share = std::strtod(setting.c_str() + colon + 1, nullptr);
    if (share > 0 && share < 1) return share;  // all others LibTorch refuses
  }
  return 1;
}

}  // namespace

double memory_share(const EnvLookup& environment) {
  double share = 1;
  for (const char* name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"})
    share = std::min(share, share_in(environment(name).value_or("")));
  return share;
}

uint64_t free_bytes_of(c10::Device device) {
  if (device.is_cpu()) {
    if (const auto bytes = free_host_memory()) return *bytes;
    throw environment_error(
        {.refused = "free memory of the CPU", .rule = "/proc/meminfo tells it"});
  }
  c10::DeviceAllocator* allocator = c10::getDeviceAllocator(device.type());
  const auto memory = allocator->getMemoryInfo(device.index());  // free, total
  uint64_t free = memory.first, allocated = 0;
  if (allocator->initialized()) {
    const auto stats = allocator->getDeviceStats(device.index());
    allocated = current(stats.allocated_bytes);
    free += current(stats.reserved_bytes) - allocated;
  }
  const double share = device.is_cuda() ? memory_share() : 1;
  if (share == 1) return free;
  const auto allowed = static_cast<uint64_t>(share * static_cast<double>(memory.second));
  return std::min(free, allowed - std::min(allowed, allocated));
}

}  // namespace muster::tensor
