// What ranks settle before a run's weights are asked about samples.
#pragma once

#include <string>

#include <torch/nn/module.h>

#include "muster/base/json.h"
#include "muster/data/dataset.h"
#include "muster/distributed/process_group.h"
#include "muster/train/checkpoints/checkpoint.h"

namespace muster::train {

/// Throws a usage error, the same on all ranks, unless all have the same samples; `data` is what they
/// are called. Collective.
void check_same_samples(const data::Dataset& samples,
                        const std::string& data,
                        const distributed::ProcessGroup& group);

/// The module in the dtype of the weights that rank 0 has read: in bfloat16 where the run kept them
/// so. Before they are loaded.
void take_dtype(torch::nn::Module& module, const Json& told);

/// What rank 0 tells of the checkpoint that it alone has read: "plan", "step", "epoch", "folder",
/// whether its weights are "averaged" (--ema-decay) or in "bfloat16", and "task", its name, of
/// checkpoints that say it. Collective.
Json told_by_first(const Checkpoint& saved, const distributed::ProcessGroup& group);

}  // namespace muster::train
