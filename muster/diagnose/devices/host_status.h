// Memory, pressure and processes of this machine and of the control group that this process is in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/cgroup.h"
#include "muster/diagnose/devices/process_facts.h"
#include "muster/diagnose/devices/published_state.h"

namespace muster::diagnose {

/// Pressure stall information: shares of the time in which something waited, in percent.
/// Source: Documentation/accounting/psi.rst of the kernel.
struct Pressure {
  double some_10s = 0, some_60s = 0, some_300s = 0;  ///< some process waited, of the last seconds
  std::optional<double> full_10s, full_60s, full_300s;  ///< all of them did; nothing for CPU
};

/// What /proc/pressure/memory or memory.pressure says; nothing if it says something else.
std::optional<Pressure> parse_pressure(const std::string& text);

struct HostStatus {
  std::string name;
  uint64_t total_bytes = 0, available_bytes = 0;  ///< 0: not to be read
  uint64_t swap_total_bytes = 0, swap_used_bytes = 0;
  std::optional<CgroupMemory> cgroup;  ///< its numbers may be an ancestor's, which has the limit
  std::optional<int64_t> oom_kills;    ///< of the group, or of the machine
  /// Of the group where it has them, else of the machine; nothing without PSI in the kernel.
  std::optional<Pressure> memory_pressure, cpu_pressure, io_pressure;
  bool pressure_is_group = false;
  std::optional<double> load_1m;  ///< processes that run or wait, on average over a minute
  double cores = 0;               ///< that this process may use: affinity and the group's quota
  /// Ticks since boot of all cores, for shares between two readings; 0: not to be read.
  uint64_t cpu_ticks = 0, cpu_busy_ticks = 0;

  /// Used of what there is, of the group if it has a limit; in [0, 1]; nothing if unknown.
  std::optional<double> memory_share() const;
};

HostStatus host_status(const Surroundings& surroundings);

/// A process of this machine, with what it publishes.
struct HostProcess {
  ProcessFacts facts;
  std::optional<PublishedState> published = std::nullopt;
};

/// Those that publish, and of all others the `most` with the most resident memory; sorted by that.
std::vector<HostProcess> host_processes(const Surroundings& surroundings,
                                        const std::vector<PublishedState>& published,
                                        size_t most);

}  // namespace muster::diagnose
