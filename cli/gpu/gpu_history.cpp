#include "cli/gpu/gpu_history.h"

#include <algorithm>
#include <limits>

namespace muster::cli {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

}  // namespace

/// Of a curve that begins late, or missed readings, the places before are empty.
void GpuHistory::put(Curve& curve, double value) {
  while (curve.size() + 1 < std::min(readings_, kMost)) curve.push_back(kNone);
  curve.push_back(value);
  if (curve.size() > kMost) curve.pop_front();
}

void GpuHistory::add(const diagnose::MachineStatus& status) {
  ++readings_;
  for (const diagnose::DeviceStatus& device : status.devices) devices_.try_emplace(device.index);
  for (auto& [index, curves] : devices_) {
    double load = kNone, memory = kNone;
    for (const diagnose::DeviceStatus& device : status.devices) {
      if (device.index != index) continue;
      if (device.utilization_percent.value) load = *device.utilization_percent.value / 100;
      memory = device.memory_share().value_or(kNone);
    }
    put(curves.load, load);
    put(curves.memory, memory);
  }
  const diagnose::HostStatus& host = status.host;
  const bool has_both = ticks_ > 0 && host.cpu_ticks > ticks_ && host.cpu_busy_ticks >= busy_ticks_;
  put(cpu_,
      has_both ? static_cast<double>(host.cpu_busy_ticks - busy_ticks_) /
                     static_cast<double>(host.cpu_ticks - ticks_)
               : kNone);
  ticks_ = host.cpu_ticks;
  busy_ticks_ = host.cpu_busy_ticks;
  put(host_memory_, host.memory_share().value_or(kNone));
}

std::vector<double> GpuHistory::values_of(const Curve& curve) {
  return {curve.begin(), curve.end()};
}

std::vector<double> GpuHistory::load_of(int64_t device) const {
  const auto found = devices_.find(device);
  return found == devices_.end() ? std::vector<double>() : values_of(found->second.load);
}

std::vector<double> GpuHistory::memory_of(int64_t device) const {
  const auto found = devices_.find(device);
  return found == devices_.end() ? std::vector<double>() : values_of(found->second.memory);
}

std::vector<double> GpuHistory::cpu() const { return values_of(cpu_); }
std::vector<double> GpuHistory::host_memory() const { return values_of(host_memory_); }

}  // namespace muster::cli
