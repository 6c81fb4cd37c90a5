// One stage of a pipeline: some blocks on a device, and its micro-batches between forward and
// backward.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <c10/core/Device.h>

#include "muster/parallel/activations/offload.h"
#include "muster/parallel/module/tensors.h"
#include "muster/parallel/pipeline/block.h"
#include "muster/parallel/pipeline/callbacks.h"
#include "muster/parallel/pipeline/split_backward.h"

namespace muster::parallel {

/// What one stage hands to the next, or a gradient on its way back. Undefined tensors stay so, and
/// one that is handed on twice is one on the other side, too.
struct Handed {
  Tensors tensors;                   ///< without graph
  std::vector<bool> needs_gradient;  ///< of each, whether one is awaited
};

/// The place of the first tensor that is the same as this one; its own place if there is none.
size_t first_same(const Tensors& tensors, size_t place);

// Note [Between stages]
// A stage's inputs are leaves of its own graph, so that a graph ends where the stage does and
// backward goes from stage to stage by hand. Behind each leaf stands a node that does nothing: a
// stage may begin with an operation in place, which a leaf that needs a gradient refuses. What the
// operation then writes to is what the stage before made, as it would be on one device; where that
// one needs it unchanged for its backward, autograd notices in the same way.
//
// The first stage's inputs need no gradient, so nothing would be left for the first half of a split
// backward, and all for the second. There the first half ends behind the first block instead, at
// such a node: that block's backward is the second half's, and all others are split.

/// One thread at a time.
class Stage {
 public:
  /// The blocks' modules are on `device` already. `again`: which blocks are checkpointed (Note
  /// [Recomputation]), by their place in the stage; others, and those beyond, run plainly.
  /// `shares_device`: with another rank, so that LibTorch's default generator is not this one's
  /// alone. `offloads`: what forward keeps for backward waits on the host, where the stage is on
  /// another device (Note [Activation offload]).
  Stage(std::vector<Block> blocks,
        c10::Device device,
        std::vector<bool> again = {},
        bool shares_device = false,
        bool offloads = false);

  c10::Device device() const { return device_; }
  const std::vector<Block>& blocks() const { return blocks_; }

  /// By "block.parameter", each tensor once.
  NamedTensors parameters() const;
  NamedTensors buffers() const;

  /// Begins a step of so many micro-batches, with backwards in halves or not; drops what an earlier
  /// one has left.
  void begin(int64_t micro_batches, bool splits_backward);

  /// Forward of a micro-batch. With gradients off nothing is kept.
  Handed forward(int64_t micro_batch, const Handed& inputs);

  /// The last stage's: what backward begins with, in place of its outputs. Returns the loss without
  /// graph; times `weight` and `scale` it is what the gradients are of. It is not asked for a
  /// weight of 0: it may be a mean over nothing. Throws a usage error for a loss that is no number
  /// with a graph.
  at::Tensor loss(int64_t micro_batch,
                  const PipelineLoss& loss,
                  const Tensors& targets,
                  double weight,
                  double scale);

  /// The whole backward; `gradients` of its outputs (the last stage: none). Adds to the parameters'
  /// gradients and returns the inputs'.
  Tensors backward(int64_t micro_batch, const Tensors& gradients);
  /// The two halves. See Note [Backward in two halves].
  Tensors backward_input(int64_t micro_batch, const Tensors& gradients);
  void backward_weight(int64_t micro_batch);
  /// What the first half has left for the second, beside what autograd holds.
  int64_t caught_bytes(int64_t micro_batch) const {
    return kept_.at(static_cast<size_t>(micro_batch)).weights.bytes();
  }

 private:
  struct Kept {
    Tensors inputs;  // where backward ends
    Tensors outputs;
    WeightGradients weights;
    Tensors gradients;  // of the outputs, where no other stage says them
  };
  Kept& kept(int64_t micro_batch) { return kept_.at(static_cast<size_t>(micro_batch)); }
  Tensors run_block(size_t place, const Tensors& tensors) const;

  std::vector<Block> blocks_;
  c10::Device device_;
  std::vector<bool> again_;
  bool shares_device_;
  std::unique_ptr<ActivationOffload> offload_;  // null: what is kept stays
  bool splits_backward_ = false;
  std::vector<Kept> kept_;
};

}  // namespace muster::parallel
