// What devices and machine did in the last readings, for their curves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "muster/diagnose/devices/machine_status.h"

namespace muster::cli {

/// Shares in [0, 1], NaN where there was none. Devices by their indices.
class GpuHistory {
 public:
  static constexpr size_t kMost = 600;  ///< readings that are kept

  void add(const diagnose::MachineStatus& status);

  /// Oldest first; empty for a device that was never there.
  std::vector<double> load_of(int64_t device) const;
  std::vector<double> memory_of(int64_t device) const;
  std::vector<double> cpu() const;          ///< of all cores, between two readings
  std::vector<double> host_memory() const;  ///< see HostStatus::memory_share
  size_t readings() const { return readings_; }

 private:
  using Curve = std::deque<double>;
  void put(Curve& curve, double value);
  static std::vector<double> values_of(const Curve& curve);

  struct DeviceCurves {
    Curve load, memory;
  };
  std::map<int64_t, DeviceCurves> devices_;
  Curve cpu_, host_memory_;
  size_t readings_ = 0;
  uint64_t ticks_ = 0, busy_ticks_ = 0;
};

}  // namespace muster::cli
