// What is refused of a task and its plan before the first step, whoever asks: the training, or
// --explain.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "muster/parallel/activations/block_choice.h"
#include "muster/tensor/unit_call.h"
#include "muster/train/checkpoints/checkpoint.h"
#include "muster/train/plan/fit_plan.h"
#include "muster/train/task/task.h"

namespace muster::train {

/// Throws a usage error for --on-oom split of a module with batch normalisations that train.
void check_splits(Task& task, const FitPlan& plan);

/// The task's parts, its whole module if it names none. Throws a usage error if it has parts of its own
/// and the plan's strategy takes whole modules alone.
std::vector<TaskPart> parts_to_train(Task& task, const FitPlan& plan);

/// What --activation-checkpointing says.
parallel::BlockRule recompute_rule(const FitPlan& plan);

/// The units that --activation-checkpointing may run again; none where it is off, or the strategy sees
/// to that by itself. Throws a usage error for a module without any.
std::vector<tensor::Unit> units_to_recompute(Task& task, const FitPlan& plan);

/// What fit() would refuse on these terms before its first step, as far as one rank can tell without
/// samples and without a device. Returns the task that it made for that. Throws as fit().
std::unique_ptr<Task> check_start(const TaskMaker& make,
                                  const FitPlan& plan,
                                  const std::optional<Checkpoint>& resume);

}  // namespace muster::train
