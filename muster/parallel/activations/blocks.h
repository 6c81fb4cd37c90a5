// A model's blocks, called one after another, some of them checkpointed.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/container/sequential.h>

#include "muster/parallel/activations/block_choice.h"
#include "muster/parallel/activations/recomputation.h"

namespace muster::parallel {

/// What one block does to the tensor that comes in.
using BlockForward = std::function<at::Tensor(const at::Tensor&)>;

/// Calls a model's blocks as chosen. One replica's.
class BlockCheckpoints {
 public:
  /// `again`: which blocks are checkpointed, by number; others, and those beyond, are called
  /// plainly.
  explicit BlockCheckpoints(std::vector<bool> again, RecomputeOptions options = {});

  /// Block `number`. A second run leaves its buffers alone.
  at::Tensor call(size_t number,
                  const BlockForward& forward,
                  const at::Tensor& input,
                  std::vector<at::Tensor> buffers = {}) const;

 private:
  std::vector<bool> again_;
  RecomputeOptions options_;
};

/// The modules of a Sequential, each of which takes and gives one tensor, as blocks.
at::Tensor forward_blocks(torch::nn::Sequential& blocks,
                          at::Tensor input,
                          const BlockCheckpoints& checkpoints);

/// Measures blocks while they are called for the first time: what each of them saves. See Note
/// [Bytes of blocks].
class BlockMeter {
 public:
  BlockMeter();
  ~BlockMeter();
  BlockMeter(const BlockMeter&) = delete;
  BlockMeter& operator=(const BlockMeter&) = delete;

  /// The next block, called plainly; gradients have to be on.
  at::Tensor call(const BlockForward& forward, const at::Tensor& input);
  const std::vector<BlockBytes>& blocks() const { return blocks_; }

 private:
  struct Seen;
  std::vector<BlockBytes> blocks_;
  std::unique_ptr<Seen> seen_;  ///< memory that earlier blocks have saved
};

}  // namespace muster::parallel
