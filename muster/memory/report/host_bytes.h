// The machine's memory, and this process's part of it. No LibTorch here. Private to the room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "muster/diagnose/devices/machine_status.h"
#include "muster/memory/report/facts.h"

namespace muster::memory {

struct HostBytes {
  int64_t total = 0, available = 0;                 ///< of the machine
  std::optional<int64_t> group_limit, group_used;   ///< used: without what the kernel drops at need
  std::optional<int64_t> address_limit, addresses;  ///< ulimit -v, and what of it is in use
  int64_t resident = 0;                             ///< of this process
};

/// Reads /proc and the control group.
HostBytes read_host_bytes(const diagnose::Surroundings& surroundings);

/// The rest of the facts of a failure on the CPU. `live`, and `cap` where the program had set one,
/// are there. Pure.
void fill_host(OomFacts& facts, const HostBytes& host);

/// Of this machine; the largest first, this process left out.
std::vector<OtherProcess> other_host_processes(const diagnose::Surroundings& surroundings,
                                               size_t most);

/// Of the device that a CUDA error is about: what the driver knows of the processes that it names.
/// Asks NVML, on a thread of its own, for at most five seconds: a call of a driver may never come
/// back.
std::vector<OtherProcess> other_device_processes(const diagnose::MachineReaderOptions& options,
                                                 std::optional<int64_t> total_bytes,
                                                 size_t most);

}  // namespace muster::memory
