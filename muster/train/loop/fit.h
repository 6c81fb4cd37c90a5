// Training any task: loop, checkpoints, files, progress.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/distributed/process_group.h"
#include "muster/track/progress.h"
#include "muster/train/checkpoints/checkpoint.h"
#include "muster/train/checkpoints/run_folder.h"
#include "muster/train/loop/evaluation.h"
#include "muster/train/loop/step_timeline.h"
#include "muster/train/plan/fit_data.h"
#include "muster/train/plan/fit_plan.h"
#include "muster/train/task/task.h"

namespace muster::train {

/// An epoch that is over and saved.
struct EpochEnd {
  int64_t epoch = 0;                 ///< 1, 2, … of the whole run
  Metrics train;                     ///< over the epoch, while the weights changed
  Metrics validation;                ///< empty if there is none
  std::filesystem::path checkpoint;  ///< the state after this epoch, on disk
};

/// How the loop talks to its caller. All are called on the rank's own thread; empty ones are not
/// called.
struct FitCallbacks {
  /// Rank 0 only, at most some ten times a second.
  std::function<void(const track::ProgressEvent&)> progress;
  std::function<void(const std::string&)> note;  ///< rank 0 only: one line for people
  std::function<bool()> stop_requested;          ///< asked each step, on every rank
  /// Rank 0 only: the folder is this run's and nothing is refused any more; before the first step.
  std::function<void()> folder_ready;
  /// Rank 0 only, before the next epoch. Waits for the checkpoint, so only where it is wanted. True:
  /// the run is to stop here, as by stop_requested.
  std::function<bool(const EpochEnd&)> epoch_ended;
  /// Rank 0 only: what fit() is about to throw because a loss or a gradient is not finite.
  std::function<void(const Error&)> not_finite;
  TraceOptions trace;  ///< where rank 0 writes the timeline of the steps
  /// For the page of the run: {"command", "muster train …"}, {"host", …}, in the order shown.
  std::vector<std::pair<std::string, std::string>> about;
};

struct FitResult {
  bool interrupted = false;              ///< stop_requested said so; the state is in `checkpoint`
  int64_t steps = 0;                     ///< optimizer steps of the whole run so far
  std::optional<int64_t> skipped_steps;  ///< of these, left out because of overflow; 16-mixed only
  double seconds = 0;                    ///< of the whole run so far, in all its processes
  Evaluation test;                       ///< every test sample counted once; empty without test
  std::filesystem::path checkpoint;      ///< the newest; rank 0 only
};

/// Makes the task, trains it, validates after each epoch, writes metrics and checkpoints under
/// `output` (rank 0), tests at the end. Collective. `resume` goes on from a checkpoint; see Note [Exact resume] and
/// Note [Life of a run folder]. `owned` is rank 0's hold on `output` where the caller has it; else
/// it is taken for this call. Throws a usage error for what cannot go on here, before anything is
/// written. Throws an environment error if the run diverges, the same on every rank: if the loss is
/// not finite on any rank, before the step is applied; under 16-mixed if that, or gradients that are
/// not finite, persist until the loss scale is below 1; if weights are not finite at a checkpoint or
/// an epoch's end, which are not saved then, or the loss of the validation or test is not.
FitResult fit(const TaskMaker& make_task,
              const FitData& data,
              const FitPlan& plan,
              const distributed::ProcessGroup& group,
              const std::filesystem::path& output,
              const std::optional<Checkpoint>& resume,
              const FitCallbacks& callbacks,
              RunFolder* owned = nullptr);

/// The same with plan.world_size ranks that are threads of this process, over the backend `thread`;
/// the caller waits for them. Each uses plan.intraop_threads.
/// Callbacks come from the ranks' threads: those of rank 0 from one, `stop_requested` from all at
/// once. Throws the first error in time, with the rank in front.
FitResult fit_on_threads(const TaskMaker& make_task,
                         const FitData& data,
                         const FitPlan& plan,
                         const std::filesystem::path& output,
                         const std::optional<Checkpoint>& resume,
                         const FitCallbacks& callbacks,
                         RunFolder* owned = nullptr);

}  // namespace muster::train
