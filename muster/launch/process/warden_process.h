// The inside of the warden: what runs after fork. Private to the room.
#pragma once

#include <span>

#include <signal.h>

namespace muster::launch {

/// A rank as the warden needs it: pointers into memory that was laid out before the fork.
struct WardenRank {
  char* const* environment = nullptr;
  const char* folder = nullptr;   ///< null: as it is
  int fds[4] = {-1, -1, -1, -1};  ///< stdin, stdout, stderr, progress (or -1)
  int pid = -1;                   ///< the warden's note; -1: not running
};

struct WardenPlan {
  const char* program = nullptr;
  char* const* arguments = nullptr;
  std::span<WardenRank> ranks;
  int control_fd = -1;
  const sigset_t* rank_signal_mask = nullptr;
};

/// Default actions for all signals but those that are ignored, which stay so, as under nohup.
/// Handlers of the launcher must not run in a forked copy. Async-signal-safe.
void drop_handlers();

/// Starts the ranks, serves the launcher and ends when no process of the job is left: Note [No
/// process is left]. Only in a process that was just forked, with all signals blocked.
/// Async-signal-safe.
[[noreturn]] void run_warden(const WardenPlan& plan);

}  // namespace muster::launch
