// What a run is put together from, on each rank.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "muster/data/loader/loader.h"
#include "muster/distributed/process_group.h"
#include "muster/train/checkpoints/checkpoint.h"
#include "muster/train/plan/fit_plan.h"
#include "muster/train/task/task.h"

namespace muster::train {

/// The split, or the samples of its first batches (of --batch-size samples); -1: all. Null stays null.
std::shared_ptr<const data::Dataset> first_batches(
    const std::shared_ptr<const data::Dataset>& split, const FitPlan& plan, int64_t batches);

/// This rank's loader: every training sample once per epoch over all ranks, in an order that is a
/// function of (seed, epoch), or the data's own; see Note [Overfitting some batches].
std::unique_ptr<data::Loader> make_loader(const FitPlan& plan,
                                          const std::shared_ptr<const data::Dataset>& train,
                                          const distributed::ProcessGroup& group);

/// Which of torch's default generators are seeded. Those of a lost device cannot be: Note [Lost devices].
enum class Seeds { kOfAllDevices, kOfTheCpu };

/// The task, made with torch's default CPU generator seeded: the same on every rank. Ranks that are
/// threads make theirs one after the other. Any thread. Throws a usage error for a null task, or one
/// without module.
std::unique_ptr<Task> make_seeded(const TaskMaker& make,
                                  int64_t seed,
                                  Seeds seeds = Seeds::kOfAllDevices);

/// Throws a usage error for metrics whose names files cannot hold, a module that is another one each
/// time, and parts without a name or a module, or whose parameters are not the module's, or in two.
void check_task_alone(Task& task);

/// A line on what no part of the task trains; empty where that is nothing.
std::string line_of_untrained(Task& task);

/// Throws a usage error, the same on all ranks, unless their tasks have one name, one list of
/// metrics with names that files can hold, and one list of parts. Collective.
void check_task_on_ranks(Task& task, const distributed::ProcessGroup& group);

/// Throws a usage error, the same on all ranks, unless their batches have the same tensors: names,
/// dtypes and numbers of dimensions. Reads two samples. Collective.
void check_batches_on_ranks(const data::Dataset& train, const distributed::ProcessGroup& group);

/// Throws a usage error if the checkpoint is of another task.
void check_task(const Task& task, const Checkpoint& checkpoint);

/// The first two samples (twice the first, if there is one), for a forward whose result is not used;
/// one would be too few for BatchNorm.
data::Batch stand_in_batch(const data::Dataset& dataset);

}  // namespace muster::train
