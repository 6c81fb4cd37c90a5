// What /proc tells of a process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/diagnose/surroundings/surroundings.h"

namespace muster::diagnose {

struct ProcessFacts {
  int64_t pid = 0;
  int64_t uid = -1;
  std::string user;         ///< the uid as text if it has no name
  std::string command;      ///< its words with blanks between; "[name]" if it has none
  uint64_t rss_bytes = 0;   ///< resident now
  uint64_t peak_bytes = 0;  ///< at most so far; 0: not told
  uint64_t swap_bytes = 0;
  uint64_t started = 0;  ///< field 22 of /proc/PID/stat: clock ticks after boot
  std::string cgroup;    ///< "/system.slice/docker-….scope"; empty: not told
};

/// Nothing if the process is not there or a zombie. Never throws for what it finds. One thread.
std::optional<ProcessFacts> process_facts(const Surroundings& surroundings, int64_t pid);

/// Numbers of all processes to be seen, in no order.
std::vector<int64_t> process_ids(const Surroundings& surroundings);

/// Resident bytes by /proc/PID/statm, the cheapest to ask; 0 if it is not there.
uint64_t resident_bytes(const Surroundings& surroundings, int64_t pid);

/// Whether a file of NVIDIA's driver is open in it, as far as this user may see that.
bool has_driver_open(const Surroundings& surroundings, int64_t pid);

/// Whether the numbers of processes here are the host's own: this process is in the machine's first
/// namespace of processes.
bool has_host_pids(const Surroundings& surroundings);

}  // namespace muster::diagnose
