// Which devices are free: what the Python package GPUtil (1.4.0) answers, with its names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "muster/diagnose/devices/device_status.h"

namespace muster::diagnose {

enum class DeviceOrder {
  kFirst,   ///< by rising index
  kLast,    ///< by falling index
  kRandom,  ///< by `seed`
  kLoad,    ///< the least used first, unknown last
  kMemory,  ///< the least share of memory used first, unknown last
};

/// GPUtil.getAvailable's arguments, with its defaults.
struct AvailableOptions {
  DeviceOrder order = DeviceOrder::kFirst;
  size_t limit = 1;         ///< so many at most
  double max_load = 0.5;    ///< the utilisation is below, as a share
  double max_memory = 0.5;  ///< the share of memory used is below
  uint64_t min_free_bytes = 0;
  /// includeNan: one whose load or share is unknown counts as well; under MIG there is no load. One
  /// whose free bytes are unknown never does.
  bool include_unknown = false;
  std::vector<int64_t> exclude = {};            ///< indices
  std::vector<std::string> exclude_uuids = {};  ///< "GPU-…"
  uint64_t seed = 0;                            ///< of kRandom
};

/// Indices, as the driver has them. CUDA may number the devices otherwise: give it their UUIDs.
/// A device that is lost is not available.
std::vector<int64_t> available_devices(std::span<const DeviceStatus> devices,
                                       const AvailableOptions& options = {});

/// The same of this machine, read now. Empty without a driver.
std::vector<int64_t> available_devices(const AvailableOptions& options = {});

/// The table that GPUtil.showUtilization prints, letter by letter: index, utilisation and memory in
/// percent, "nan%" where it is unknown.
std::string utilization_table(std::span<const DeviceStatus> devices);

}  // namespace muster::diagnose
