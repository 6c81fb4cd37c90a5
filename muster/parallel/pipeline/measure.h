// What the blocks of a model cost, measured: what a partition begins with.
#pragma once

#include <cstdint>
#include <vector>

#include <c10/core/Device.h>

#include "muster/parallel/pipeline/block.h"
#include "muster/parallel/pipeline/callbacks.h"
#include "muster/parallel/pipeline/micro_batches.h"
#include "muster/pipeline/partition/blocks.h"

namespace muster::parallel {

struct MeasureOptions {
  int warm_up = 2;
  int repeats = 7;           ///< of which the shortest counts, of each time by itself
  int threads_per_rank = 1;  ///< inside operations, as in the pipeline
  /// Between devices, for transfers; 0: they take no time, as between threads on the CPU.
  double bytes_per_s = 0;
  /// What is held beside each byte of a parameter: 1 for its gradient, and the optimizer's state
  /// (SGD 0, momentum 1, Adam 2).
  double bytes_beside_parameter = 1;
  /// By block, whether it is checkpointed (Note [Recomputation]): it keeps its inputs, and runs again in
  /// backward, in each half that asks for what it made. Empty: none.
  std::vector<bool> checkpointed = {};
};

/// Runs each block by itself on `device`, forward and backward, whole and in halves (Note [Backward
/// in two halves]), and takes times and the bytes that autograd keeps; the loss is the last
/// block's. What a block needs while it runs is the device's own count; on the CPU it is taken for
/// the gradients of its inputs and outputs. A block's module is on the device meanwhile, and then
/// where it was: no device needs to hold the model. Parameters, buffers, gradients and LibTorch's
/// default generators are left as they were. What a checkpointed block has while it runs again is among
/// work_bytes, on the CPU too: one block of a rank does so at a time. `example` is one micro-batch of the size that will be
/// used. Throws what a block throws, with its name.
std::vector<pipeline::BlockCosts> measure_blocks(const std::vector<Block>& blocks,
                                                 const MicroBatch& example,
                                                 const PipelineLoss& loss,
                                                 c10::Device device,
                                                 const MeasureOptions& options = {});

}  // namespace muster::parallel
