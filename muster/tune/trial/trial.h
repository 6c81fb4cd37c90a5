// One trial of a study: what was tried, what it reported, how it ended.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/tune/space/space.h"

namespace muster::tune {

/// Ray's words are PENDING RUNNING PAUSED TERMINATED TERMINATED ERROR, Optuna's WAITING RUNNING
/// RUNNING COMPLETE PRUNED FAIL (see docs/tune.md).
enum class TrialState {
  kPending,  ///< waits for a slot, or for the end of a back-off
  kRunning,
  kPaused,    ///< gave its slot back at a rung; may go on later from its checkpoint
  kComplete,  ///< ended by itself, at max_t or at a stop criterion
  kPruned,    ///< stopped early by the scheduler
  kFailed,    ///< no attempt is left
};
std::string_view ray_name(TrialState state);
std::string_view optuna_name(TrialState state);
inline bool is_over(TrialState state) { return state >= TrialState::kComplete; }

/// Why an attempt failed; each class has a policy of its own (StudySpec::failures). kInterrupted:
/// the tuner ended it, or died; never charged to the trial.
enum class Failure { kNone, kCrash, kOutOfMemory, kNan, kTimeout, kLost, kInterrupted };
inline constexpr size_t kFailures = 7;
/// "none", "crash", "oom", "nan", "timeout", "lost", "interrupted".
std::string_view name_of(Failure failure);

/// Numbers by name, in the order of the report: {"loss", 0.31}.
using Metrics = std::vector<std::pair<std::string, double>>;
const double* find_metric(const Metrics& metrics, std::string_view name);

/// What to do next, and why in words: "stopped at rung 4: 0.412 < cutoff 0.437 (n=9)".
enum class Action { kContinue, kPause, kStop };
std::string_view name_of(Action action);  ///< "continue", "pause", "stop"
struct Decision {
  Action action = Action::kContinue;
  std::string reason;
  /// With kStop: the trial has all it was to get (max_t, a stop criterion), so it ends COMPLETE
  /// instead of PRUNED.
  bool complete = false;
  friend bool operator==(const Decision&, const Decision&) = default;
};

/// One report as a trial sends it.
struct Report {
  int64_t sequence = 0;         ///< 1, 2, …: the client's number within its attempt
  std::optional<int64_t> step;  ///< the time attribute; else reports are counted
  Metrics metrics;
  std::string checkpoint;  ///< path of a checkpoint that holds the state at this report, or empty
};

/// What goes with a report (muster/tune/trial/report.h, muster/tune/run/run.h).
struct ReportOptions {
  std::optional<int64_t> step;  ///< the time attribute; else reports are counted
  std::string checkpoint;       ///< path of a checkpoint of the state at this report
};

}  // namespace muster::tune
