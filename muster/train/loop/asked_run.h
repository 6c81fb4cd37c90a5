// What ranks settle before a run's weights are asked about samples.
#pragma once

#include <string>

#include <c10/core/Device.h>

#include "muster/base/json.h"
#include "muster/data/dataset.h"
#include "muster/distributed/process_group.h"
#include "muster/train/checkpoints/checkpoint.h"
#include "muster/train/loop/evaluate.h"
#include "muster/train/loop/resolve.h"
#include "muster/train/plan/ask_options.h"
#include "muster/train/task/task.h"

namespace muster::train {

/// Throws a usage error for a batch size below 1 that is not -1.
void check_batch_size(const AskOptions& ask);

/// The weights that are asked about, with the plan of their run: where the data lie now, how large
/// its batches are in a test, as its last start was told, whenever the weights were saved. Throws
/// as read_weights().
Checkpoint read_asked(const AskOptions& ask);

/// Throws a usage error, the same on all ranks, unless all have the same samples; `data` is what they
/// are called: "--data mnist". Collective.
void check_same_samples(const data::Dataset& samples,
                        const std::string& data,
                        const distributed::ProcessGroup& group);

/// What rank 0 tells of the checkpoint that it alone has read: "plan", "step", "epoch", "folder",
/// whether its weights are "averaged" (--ema-decay) or in "bfloat16", and "task", its name, of
/// checkpoints that say it. Collective.
Json told_by_first(const Checkpoint& saved, const distributed::ProcessGroup& group);

/// Moves the task to `device`, in the dtype that the run keeps its weights in, and gives every rank the
/// weights that rank 0 has read. Collective.
void load_asked(Task& task,
                c10::Device device,
                const Json& told,
                Checkpoint saved,
                const distributed::ProcessGroup& group);

/// How the samples are asked about, under the run's precision.
EvaluateOptions asked_options(const AskOptions& ask,
                              const Surroundings& around,
                              const Json& told,
                              Precision precision);

}  // namespace muster::train
