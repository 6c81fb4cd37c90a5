// How a training talks to its caller, and what it comes to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/track/progress.h"
#include "muster/train/metrics/metric.h"
#include "muster/train/task/evaluation.h"

namespace muster::train {

struct TraceOptions {
  static constexpr int64_t kMaxSteps = 10'000;
  std::filesystem::path file;  ///< of the Chrome trace, written by rank 0; empty: no timeline
  int64_t steps = 100;         ///< after the warm-up; 1 to kMaxSteps
  int64_t warm_up = 10;        ///< first steps, left out where the run is longer
};

/// Where a run is when a hook is called.
struct HookPlace {
  int rank = 0;       ///< that calls it
  int64_t step = 0;   ///< optimizer steps finished so far, of the whole run
  int64_t epoch = 0;  ///< 1, 2, …: the one that goes on, or that this step ended
};

/// An optimizer step that was made, or was left out because of overflow (16-mixed).
struct StepEnd {
  HookPlace at;
  Metrics metrics;                      ///< of the step's samples on all ranks, before its update
  double lr = 0;                        ///< the rate that it was made with
  std::optional<double> gradient_norm;  ///< before clipping; only with gradient_clip_val
};

/// A validation or the test that is over.
struct EvaluationEnd {
  HookPlace at;
  Phase phase = Phase::kValidate;
  Metrics metrics;  ///< of all samples of the split, on all ranks
};

/// A checkpoint that is on the disk.
struct CheckpointEnd {
  HookPlace at;
  std::filesystem::path path;
};

/// An epoch that is over and saved.
struct EpochEnd {
  int64_t epoch = 0;                 ///< 1, 2, … of the whole run
  Metrics train;                     ///< over the epoch, while the weights changed
  Metrics validation;                ///< empty if there is none
  bool is_validated_later = false;   ///< by check_val_every_n_epoch: not in this epoch
  std::filesystem::path checkpoint;  ///< the state after this epoch, on disk
};

// Note [Hooks that throw]
// A hook may throw on one rank while the others are on their way into the next collective. So what
// it throws is kept, and told where the ranks talk anyway: with the next step's report, before that
// step's update, and before anything is saved. All ranks then end with one and the same error,
// "hook step_ended (rank 1, after step 5): …", and what was saved stays, as when a run diverges. A
// rank whose hook has thrown calls no other one.

/// How the loop talks to its caller. All are called on the rank's own thread, the one that called
/// fit(), between the steps: what a hook takes, all ranks wait for. Empty ones are not called. None
/// may make a collective. See Note [Hooks that throw].
struct FitCallbacks {
  /// Rank 0 only, at most some ten times a second.
  std::function<void(const track::ProgressEvent&)> progress;
  std::function<void(const std::string&)> note;  ///< rank 0 only: one line for people
  std::function<bool()> stop_requested;          ///< asked each step, on every rank
  /// Rank 0 only: seconds since the run began in this process, in place of the steady clock's, as what
  /// --max-time and elapsed_s count; for tests.
  std::function<double()> clock;
  /// Rank 0 only: the folder is this run's and nothing is refused any more; before the first step.
  std::function<void()> folder_ready;
  /// Rank 0 only, before the next epoch. Waits for the checkpoint, so only where it is wanted. True:
  /// the run is to stop here, as by stop_requested.
  std::function<bool(const EpochEnd&)> epoch_ended;
  /// Rank 0 only: the run is over by max_steps or max_time inside an epoch, which is validated and saved then (and
  /// not where nobody sets this). `epoch` is that one.
  std::function<void(const EpochEnd&)> ended_inside_epoch;
  /// Rank 0 only: what fit() is about to throw because a loss or a gradient is not finite.
  std::function<void(const Error&)> not_finite;
  TraceOptions trace;  ///< where rank 0 writes the timeline of the steps
  /// For the page of the run: {"command", "muster train …"}, {"host", …}, in the order shown.
  std::vector<std::pair<std::string, std::string>> about;

  // Hooks. Those of every rank are called on each rank whose callbacks have them.

  /// Every rank: before an epoch's first step, or the first one in it after a resume.
  std::function<void(const HookPlace&)> epoch_began;
  /// Every rank: after each optimizer step, and before a checkpoint of it is saved; on a device while
  /// it makes the next step.
  std::function<void(const StepEnd&)> step_ended;
  /// Every rank: after each validation, and after the test.
  std::function<void(const EvaluationEnd&)> evaluated;
  /// Rank 0 only: after each checkpoint. Waits for the disk, so only where it is wanted.
  std::function<void(const CheckpointEnd&)> saved;
};

/// Of a run with --on-oom split in which memory ran out.
struct MemoryFailures {
  int64_t failures = 0;     ///< attempts at a step, of the whole run
  int64_t micro_batch = 0;  ///< samples of a rank at a time, at the end; 0: whole batches
};

struct FitResult {
  /// stop_requested said so; the state is in `checkpoint`, which is empty if that was in the search
  /// for a learning rate, before the first step.
  bool interrupted = false;
  int64_t steps = 0;                     ///< optimizer steps of the whole run so far
  std::optional<int64_t> skipped_steps;  ///< of these, left out because of overflow; 16-mixed only
  double seconds = 0;                    ///< of the whole run so far, in all its processes
  Evaluation test;                       ///< every test sample counted once; empty without test
  std::filesystem::path checkpoint;      ///< the newest; rank 0 only
  std::filesystem::path tested;          ///< whose weights `test` is of: that, or the best epoch's
  std::optional<MemoryFailures> memory;  ///< nothing: it never ran out
  bool has_page = true;                  ///< index.html, which a full disk may cost
};

}  // namespace muster::train
