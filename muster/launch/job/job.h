// A job: one program started as several ranks on this machine, and what became of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/launch/process/failure.h"

namespace muster::launch {

/// What to start. Field order is API (designated initialisers). torchrun's flag of the same name
/// says the same thing.
struct JobSpec {
  std::vector<std::string> argv;  ///< the program and its arguments; argv[0] is looked up in PATH
  int64_t nproc_per_node = 1;     ///< ranks on this machine, at least 1
  int64_t nnodes = 1;             ///< machines; each runs a launcher of its own
  int64_t node_rank = 0;          ///< this machine: 0 … nnodes-1
  std::string master_addr = "127.0.0.1";  ///< where rank 0 serves the store
  int64_t master_port = 0;                ///< 0: a free port is chosen, again for each attempt
  std::string role = "default";           ///< ROLE_NAME
  /// TORCHELASTIC_RUN_ID and the log folder; empty: made up, where one launcher is enough. Several
  /// machines that are given one are given the same.
  std::string run_id;
  /// How often all ranks are started again after one failed; not after wrong use (was_wrong_use),
  /// which the same program with the same arguments would meet again.
  int64_t max_restarts = 0;
  double shutdown_timeout_s = 30;  ///< from the first signal to SIGKILL
  std::filesystem::path log_dir;   ///< empty: the user's state folder; see log_folder.h
  /// Take INT, HUP, QUIT and TERM while the job runs, and pass them on.
  bool forward_signals = true;
};

/// Throws a usage error for a spec that cannot be started: no program, world size 0, a node outside
/// the job, a port outside 0 … 65535, several nodes without a port, restarts over several nodes.
/// Pure.
void check(const JobSpec& spec);

/// How a job ended.
struct JobOutcome {
  int exit_code = 0;                   ///< for the launcher itself; see exit_code_of
  int interrupted_by = 0;              ///< the signal that the launcher received first, or 0
  std::optional<RankFailure> failure;  ///< the rank that failed first in the last attempt; of an
                                       ///< interruption (was_interrupted) that ended first
  int64_t restarts = 0;                ///< restarts that were used up
  std::filesystem::path log_folder;    ///< the folder of this run; empty if there is none
  std::vector<int> left_behind;        ///< ranks' process ids that SIGKILL did not end in time
};

/// The launcher's exit code: 0 if every rank ended with 0; 128+n if the launcher was stopped by
/// signal n (130 after Ctrl-C); 130 if a rank was interrupted by itself; 2 if the first failing rank
/// ended with 2 (wrong use); else 1, also for one that was told to end. Pure.
int exit_code_of(int interrupted_by, const std::optional<RankFailure>& failure);

/// Which stream of a rank a line came from.
enum class Stream { kOut = 0, kErr = 1 };

/// Hears of a running job. Called on the thread that runs the job, never at the same time. Text has
/// no line end.
class JobObserver {
 public:
  virtual ~JobObserver() = default;

  virtual void on_line(int64_t /*rank*/, Stream /*stream*/, std::string_view /*line*/) {}
  /// Rank 0, through MUSTER_PROGRESS_FD.
  virtual void on_progress(std::string_view /*json_line*/) {}
  virtual void on_note(std::string_view /*text*/) {}  ///< restarts, signals, full disks

  /// True stops the reading of ranks (which then wait in write, as behind any pipe) until `wake_fd`
  /// becomes readable.
  virtual bool congested() { return false; }
  virtual int wake_fd() const { return -1; }
};

}  // namespace muster::launch
