// What /proc, /dev and the library folders tell of NVIDIA's driver, without loading it. Private to the
// room.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "muster/diagnose/surroundings/surroundings.h"

namespace muster::diagnose {

/// The kernel module's version, "550.54.15", by /proc/driver/nvidia/version; nothing if it is not
/// loaded.
std::optional<std::string> nvidia_module_version(const Surroundings& surroundings);

/// The version of a library of the driver by the name of its file ("libcuda.so.550.54.15"); nothing
/// if none of the usual folders has it.
std::optional<std::string> nvidia_library_version(const Surroundings& surroundings,
                                                  std::string_view name);

/// Devices that programs can open: /dev/nvidia0, …
int64_t nvidia_device_files(const Surroundings& surroundings);

}  // namespace muster::diagnose
