// The process between the launcher and its ranks, which outlives the launcher for as long as a
// process of the job lives.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/file.h"

namespace muster::launch {

// Note [No process is left]
//
//   launcher ──── warden ──┬── rank 0 ── grandchildren, daemons …
//      └── control socket ─┘── rank 1
//
// A launcher that is killed with SIGKILL cannot clean up, and a parent-death signal reaches
// children only: what a rank has started would live on, above all if it called setsid or forked
// twice. So the ranks are children of a warden, a forked copy of the launcher in a session of its
// own, which the signals of a terminal do not reach and which blocks the rest. The warden adopts
// orphans (PR_SET_CHILD_SUBREAPER), so everything that the job starts stays below it.
//   - The launcher dies: the control socket, whose other end only it holds, reads end-of-file. The
//     warden kills all that is below it, again after each death, until waitid says that no child is
//     left, and ends.
//   - The warden is killed: each rank has the warden's death as its parent-death signal and dies;
//     what the ranks had started falls to the next process that adopts orphans. `muster run` is
//     one, and kills it.
//   - A rank dies: its orphans fall to the warden and are ended with the job.
// Launcher and warden killed at the same instant is the one case left: ranks die, their
// grandchildren may not.
//
// The warden is the parent of the ranks also because a parent-death signal follows the parent's
// *thread*: it has one thread, and that one lives as long as it does, whatever threads the launcher
// has.
//
// After fork a copy of a program with threads may use async-signal-safe functions only: no heap, no
// stdio, no locks. All that the warden needs is laid out before (RankStart).

/// One rank, ready to start. Descriptors belong to the caller and are numbered above
/// kLastStandardFd.
struct RankStart {
  std::vector<std::string> environment;  ///< "NAME=value"
  int stdin_fd = -1;
  int stdout_fd = -1;
  int stderr_fd = -1;
  int progress_fd = -1;  ///< becomes kProgressFd in the rank; -1: none
  std::string folder;    ///< the rank's working folder; empty: the launcher's
};

/// What the warden tells the launcher, one message each.
struct WardenReport {
  enum Kind : int32_t {
    kStarted,     ///< `pid` runs local rank `rank`
    kNotStarted,  ///< exec of local rank `rank` failed with errno `status`
    kEnded,       ///< local rank `rank` ended with wait status `status`
    kStopped,     ///< local rank `rank` is stopped, by a signal and not by a debugger
    kContinued,   ///< local rank `rank` goes on
    kAllGone,     ///< no process of the job is left; the warden ends
  };
  Kind kind = kAllGone;
  int32_t rank = 0;
  int32_t pid = 0;
  int32_t status = 0;
  int32_t batch = 0;  ///< kEnded: equal for ranks that were found dead at the same look
};

/// What the launcher tells the warden.
struct WardenOrder {
  enum Kind : int32_t {
    kSignalRanks,  ///< `signal` to the process group of each rank that has not ended
    /// `signal` to all descendants, and to those that come up later since their parent died of it
    kSignalEverybody,
    kKill,  ///< SIGKILL to all descendants until none is left
  };
  Kind kind = kKill;
  int32_t signal = 0;
};

/// Starts a warden, which starts the ranks: each in a process group of its own, with the caller's
/// signal mask as it was before `blocked` signals were taken (`rank_signal_mask`, a sigset_t),
/// default signal actions and no descriptors but its own. Call on any thread.
class Warden {
 public:
  /// Throws an environment error if the process cannot be made.
  Warden(const std::filesystem::path& program,
         const std::vector<std::string>& argv,
         std::span<const RankStart> ranks,
         const void* rank_signal_mask);

  /// Gives the warden up: it kills all that is left. Does not wait unless the warden has said
  /// kAllGone.
  ~Warden();
  Warden(const Warden&) = delete;
  Warden& operator=(const Warden&) = delete;

  /// Readable when a report is there or the warden is dead.
  int fd() const { return control_.get(); }
  int pid() const { return pid_; }  ///< -1: a nursery's

  enum class Read { kReport, kNothing, kDead };
  /// Takes one report if there is one. Never blocks.
  Read read(WardenReport& report);

  /// Never blocks; an order to a dead warden is lost, and a stopped one goes on.
  void order(WardenOrder order);

  /// A warden that somebody has stopped goes on: nobody hears of its ranks else.
  void wake() const;
  /// How often, once a rank has closed its streams: it is about to end, and shows that by nothing else.
  static constexpr double kNudgeS = 1;

  /// Ends the warden's process, which has nothing left to do and may be stopped, and waits for that.
  /// Only after kAllGone or kDead.
  void reap();

 private:
  friend class Nursery;
  /// One that a nursery starts: no child of ours, so there is nothing to reap.
  explicit Warden(UniqueFd control) : control_(std::move(control)) {}

  UniqueFd control_;
  int pid_ = -1;
};

}  // namespace muster::launch
