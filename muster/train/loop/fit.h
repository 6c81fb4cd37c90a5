// Training any task: loop, checkpoints, files, progress.
#pragma once

#include <filesystem>
#include <optional>

#include "muster/distributed/process_group.h"
#include "muster/train/checkpoints/checkpoint.h"
#include "muster/train/checkpoints/run_folder.h"
#include "muster/train/plan/callbacks.h"
#include "muster/train/plan/fit_data.h"
#include "muster/train/plan/fit_plan.h"
#include "muster/train/task/task.h"

namespace muster::train {

/// What is trained, how, and where it is kept. On several ranks each has its own: alike but for what
/// callbacks and `owned` are.
struct FitRequest {
  TaskMaker task;  ///< called once on each rank; where something is searched for first, once more
  FitData data;
  FitPlan plan;
  std::filesystem::path output;  ///< the run's folder; rank 0 writes there
  /// The run goes on from there; see Note [Exact resume] and Note [Life of a run folder].
  std::optional<Checkpoint> resume = {};
  FitCallbacks callbacks = {};
  RunFolder* owned =
      nullptr;  ///< rank 0's hold on `output`, if the caller has it; else it is taken
};

/// Makes the task, trains it, validates after each epoch, writes metrics and checkpoints under
/// `output` (rank 0), tests at the end. Collective. Throws a usage error for what cannot go on here,
/// before anything is written. Throws an environment error if the run diverges, the same on every
/// rank: if the loss is not finite on any rank, before the step is applied (on a device, while it
/// makes the next one); under 16-mixed if that, or gradients that are not finite, persist until the
/// loss scale is below 1; if weights are not finite at a checkpoint or an epoch's end, which are not
/// saved then, or the loss of the validation or test is not.
FitResult fit(const FitRequest& run, const distributed::ProcessGroup& group);

/// The same with run.plan.world_size ranks that are threads of this process, over the backend
/// `thread`; the caller waits for them. Each uses plan.intraop_threads.
/// Callbacks come from the ranks' threads: those of rank 0 from one, `stop_requested` from all at
/// once. Throws the first error in time, with the rank in front; where a rank does not end, not before
/// `overdue` has heard of that.
FitResult fit_on_threads(const FitRequest& run,
                         const distributed::ThreadWorld::Overdue& overdue = {});

}  // namespace muster::train
