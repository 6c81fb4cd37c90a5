// What all ranks settle before the first step: that they mean the same run, and that rank 0's
// folder is ready for it.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "muster/distributed/process_group.h"
#include "muster/tensor/device/math_modes.h"
#include "muster/train/checkpoints/run_folder.h"
#include "muster/train/plan/callbacks.h"
#include "muster/train/plan/fit_plan.h"
#include "muster/train/record/run_log.h"

namespace muster::train {

/// Of the process, while it trains.
tensor::MathModes math_modes_of(const FitOptions& options);

/// This rank's thread uses the plan's number of intra-op threads from here on. Throws a usage error
/// if a limit of the plan is behind the checkpoint, or unless all ranks resume from one and the same
/// checkpoint, or none does: an output folder that not all machines see would else give each rank a
/// run of its own. Collective.
void begin_on_rank(const FitPlan& plan,
                   const distributed::ProcessGroup& group,
                   const std::optional<Checkpoint>& resume);

/// Throws a usage error if --epochs or --max-steps is behind the checkpoint: the run would end at once,
/// and stand in its records as if it had ended there.
void check_limits(const FitOptions& options, const Checkpoint& resume);

/// Throws a usage error if the run cannot go on with this plan although its options are the same:
/// another number of samples.
void check_same_data(const FitPlan& plan, const Checkpoint& resume);

/// Rank 0: makes `output` the run's folder. All that may be refused is refused before the first
/// write; then the folder is prepared, and what was told anew is kept (Note [Kept plan]). `from` is
/// the checkpoint to go on from, or null. Returns the hold on the folder unless it is `owned` by the
/// caller.
std::unique_ptr<RunFolder> open_run_folder(const FitPlan& plan,
                                           const std::filesystem::path& output,
                                           const Checkpoint* from,
                                           RunFolder* owned,
                                           const RunLog& log);

/// Calls load() on every rank for each tensor of `model` with what `read` returns of it on rank 0, on
/// the CPU: no rank but 0 holds more than one at a time. What `read` throws, and what
/// match_model_state() does, is thrown on every rank. Collective.
void load_on_all_ranks(const torch::nn::Module& model,
                       const distributed::ProcessGroup& group,
                       const std::function<Checkpoint()>& read,
                       const std::function<void(const tensor::LoadedTensor& tensor)>& load);

}  // namespace muster::train
