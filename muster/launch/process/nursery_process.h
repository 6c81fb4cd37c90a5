// The inside of the nursery: what runs after fork. Private to the room.
#pragma once

#include <cstdint>

#include <signal.h>

namespace muster::launch {

/// The head of the file in memory that describes one start. Behind it lie the pointers' places (as
/// offsets from the head, ended by 0) and the texts.
struct NurseryPlan {
  uint64_t bytes = 0;        ///< of the whole
  uint64_t program = 0;      ///< offset of a text
  uint64_t folder = 0;       ///< offset of a text; 0: the nursery's own
  uint64_t arguments = 0;    ///< offset of an array of offsets
  uint64_t environment = 0;  ///< likewise
  sigset_t rank_signal_mask{};
};

/// The descriptors that come with a start, in this order.
enum NurseryFd { kPlanFd, kWardenControlFd, kInFd, kOutFd, kErrFd, kNurseryFds };

/// Serves its owner until that is dead, then waits for the wardens' ends and removes `folder` (may
/// be empty). Only in a process that was just forked, with all signals blocked. Async-signal-safe.
[[noreturn]] void run_nursery(int control_fd, const char* folder);

}  // namespace muster::launch
