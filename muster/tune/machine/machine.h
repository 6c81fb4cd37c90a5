// What this machine has, with sources that tests can replace. Private to the room.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/rank_env.h"
#include "muster/tune/machine/resources.h"

namespace muster::tune {

struct MachineSources {
  std::filesystem::path root = "/";             ///< before /proc and /sys
  std::string nvml = "libnvidia-ml.so.1";       ///< the driver's library, by dlopen
  EnvLookup environment = process_environment;  ///< CUDA_VISIBLE_DEVICES
};

Machine machine_from(const MachineSources& sources);

/// The UUIDs of all devices of the driver, in its order (that of the PCI bus); empty if the library
/// is not there or there is no device. Never throws.
std::vector<std::string> nvml_uuids(const std::string& library);

/// What CUDA_VISIBLE_DEVICES leaves of `uuids`, in its order: indices, UUIDs or their beginnings;
/// everything behind the first that is none of these is hidden, as the CUDA runtime has it.
/// Partitions of a device (MIG-…) are taken at their word. Indices are those of the PCI bus.
/// Source: CUDA C++ Programming Guide, "CUDA Environment Variables".
std::vector<std::string> visible_devices(const std::vector<std::string>& uuids,
                                         std::string_view cuda_visible_devices);

}  // namespace muster::tune
