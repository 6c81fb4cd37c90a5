// Whether another process of this host lives, asked of the kernel.
#pragma once

#include <cstdint>
#include <string>

namespace muster::diagnose {

/// A process, so that a later one with the same number is not taken for it.
struct ProcessId {
  std::string host;      ///< boot id and process-id namespace; empty: unknown
  int64_t pid = 0;       ///< in that namespace
  uint64_t started = 0;  ///< field 22 of /proc/PID/stat: clock ticks after boot
  std::string hostname;  ///< for people
  bool operator==(const ProcessId&) const = default;
};

enum class Life {
  kUnknown,  ///< on another host, or /proc cannot be read
  kRuns,
  kStopped,  ///< by SIGSTOP, SIGTSTP or a debugger
  kGone,     ///< ended, or a zombie
};

ProcessId this_process();
Life life_of(const ProcessId& process);

/// "running" or "asleep": what the first thread of this process does now; empty if unknown.
std::string main_thread_state();

}  // namespace muster::diagnose
