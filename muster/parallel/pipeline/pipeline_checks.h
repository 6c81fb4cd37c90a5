// What a pipeline refuses. All throw usage errors.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "muster/parallel/pipeline/pipeline.h"

namespace muster::parallel {

/// Where each stage begins: as asked for, or, if nothing is, every block a stage. They begin with 0 and rise.
pipeline::Split split_of(pipeline::Split first_block, size_t blocks);

/// Above 0.
std::chrono::milliseconds stall_timeout_of(std::chrono::milliseconds timeout);

/// Parameters are named by their block.
void refuse_repeated_names(const std::vector<Block>& blocks);

/// One tensor, a parameter or a buffer, in two stages. `stages`: those of each.
void refuse_shared(const std::vector<NamedTensors>& stages);

/// A block that is checkpointed and has layers that draw from LibTorch's default generator of a
/// `device` that several ranks share.
void refuse_shared_draws(const Block& block, c10::Device device);

/// A step that trains: grad mode is on, there is a loss and a finite scale of the gradients, which end
/// at the pipeline's inputs.
void check_training(const PipelineLoss& loss, double scale, const std::vector<MicroBatch>& batches);

}  // namespace muster::parallel
