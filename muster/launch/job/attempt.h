// One start of all ranks, supervised to its end. Private to the room.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "muster/launch/job/job.h"
#include "muster/launch/job/rank_plan.h"
#include "muster/launch/process/signal_source.h"

namespace muster::launch {

/// Exit code by which a rank says that the port of MASTER_PORT is taken (EADDRINUSE). See Note
/// [Lost port].
inline constexpr int kLostPortExitCode = 98;

struct AttemptResult {
  std::optional<RankFailure> failure;  ///< the rank that failed first by itself
  int interrupted_by = 0;    ///< the signal that stopped the attempt; 0 if a failure came before it
  bool stop_wanted = false;  ///< a signal came at any time, so there is no restart
  bool lost_port = false;    ///< the failure is one of the master port; see Note [Lost port]
  std::vector<int> left_behind;  ///< ranks that SIGKILL did not end in time
};

/// Starts the ranks and returns when all of their processes are gone. Throws a usage or environment
/// error if the program cannot be started, an environment error if the warden is killed; no process
/// is left in either case.
AttemptResult run_attempt(const JobSpec& spec,
                          const std::filesystem::path& program,
                          const AttemptPlan& plan,
                          SignalSource& signals,
                          JobObserver& observer);

}  // namespace muster::launch
