// One model cut into stages on several devices of one process, each with a thread of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "muster/parallel/module/loss_reduction.h"
#include "muster/parallel/module/tensors.h"
#include "muster/parallel/pipeline/block.h"
#include "muster/parallel/pipeline/callbacks.h"
#include "muster/parallel/pipeline/micro_batches.h"
#include "muster/parallel/pipeline/tied_parameters.h"
#include "muster/pipeline/partition/blocks.h"
#include "muster/pipeline/simulate/timeline.h"

namespace muster::parallel {

struct PipelineOptions {
  std::string schedule = "1f1b";  ///< of `muster list schedules`, "interleaved", "zb1p", …
  int64_t micro_batches = 1;      ///< into which a batch is cut; fewer if it has fewer rows
  /// By stage, the block that it begins with. Empty: each block is a stage.
  pipeline::Split first_block = {};
  LossReduction reduction = LossReduction::kMean;
  std::vector<TiedParameter> tied = {};
  /// By block, whether it is checkpointed (Note [Recomputation]). Empty: none.
  std::vector<bool> checkpointed = {};
  /// Called on the stage's thread when its gradients are whole, for data parallel stages.
  AverageGradients average = {};
  int threads_per_rank = 0;    ///< inside operations; 0: the caller's number, divided by ranks
  bool keeps_outputs = false;  ///< PipelineStep::outputs, which cost their memory
  bool synchronizes = false;   ///< devices behind each action: times are true, steps slower
  /// A single action that takes longer, or a rank that has not begun by then, is a stall, and ends the
  /// step.
  std::chrono::milliseconds stall_timeout = std::chrono::minutes(30);
};

/// What a step made.
struct PipelineStep {
  /// Over the whole batch // [], on the last stage's device, without graph.
  at::Tensor loss;
  /// Of the last stage, by row of the batch; with keeps_outputs.
  Tensors outputs;
  /// When each rank did what. On a device: when it was asked to, unless `synchronizes`.
  pipeline::Timeline timeline;
};

// Note [Pipelines in one process]
// Each rank of the schedule has a thread and a device. It carries out its list of actions; what
// goes to another rank is left in memory, where that one takes it (ThreadCarrier). There is no
// handshake, no message that both must be ready for, and no process that could be missing. The
// gradients are those of one device on the whole batch, up to the order of summation, which is the
// schedule's: equal runs give equal bits. Batch statistics are each micro-batch's own, and running
// ones take them up in turn, as in torch.distributed.pipelining; dropout on the CPU draws from
// LibTorch's one generator in an order that races decide, unless each layer has its own
// (models::Dropout).
//
// A rank that throws ends the step: the others are woken and the first error in time is thrown. One
// whose action takes longer than stall_timeout is left behind in it, and named. Either way all
// gradients are dropped, also those that earlier steps have added up, and the next step() begins
// anew, once whoever was left behind is back. Until then nobody else touches the model.

/// Trains a model that is cut over devices:
///
///     parallel::Pipeline pipe(parallel::blocks_of(net), {cuda0, cuda1},
///                             [](const Tensors& out, const Tensors& target) {
///                               return cross_entropy(out[0], target[0]);
///                             },
///                             {.schedule = "1f1b", .micro_batches = 8, .first_block = {0, 6}});
///     torch::optim::SGD optimizer(pipe.parameters(), 0.1);
///     for (…) {
///       optimizer.zero_grad();
///       torch::Tensor loss = pipe.step({x}, {y}).loss;
///       optimizer.step();
///     }
///
/// Used by one thread at a time.
class Pipeline {
 public:
  /// Moves the modules to `devices`: one for each rank of the schedule; a device may be named
  /// several times. Throws a usage error for a split or schedule that does not fit, unknown
  /// devices, and a parameter that two stages have.
  Pipeline(std::vector<Block> blocks,
           std::vector<c10::Device> devices,
           PipelineLoss loss,
           PipelineOptions options = {});
  ~Pipeline();
  Pipeline(Pipeline&&) noexcept;
  Pipeline& operator=(Pipeline&&) noexcept;

  /// Forward and backward of a batch, cut by rows (cut_batch). Adds to the parameters' gradients
  /// `scale` times those of the loss over the whole batch; a GradScaler's scale goes here. Throws
  /// what a stage threw, as an Error that names rank, action, stage and micro-batch.
  PipelineStep step(const Tensors& inputs, const Tensors& targets, double scale = 1);
  /// The same of micro-batches that are cut already, as many as there are.
  PipelineStep step(std::vector<MicroBatch> batches, double scale = 1);

  /// The last stage's outputs, without gradients, put together by row on its device. For inference:
  /// say eval() before.
  Tensors forward(const Tensors& inputs);

  /// For an optimizer: by "block.parameter", in the order of the blocks, without tied followers.
  NamedTensors named_parameters() const;
  std::vector<at::Tensor> parameters() const;
  NamedTensors named_buffers() const;

  void train(bool on = true);
  void eval() { train(false); }
  void zero_grad();

  int64_t stages() const;
  int64_t ranks() const;
  c10::Device device_of_stage(int64_t stage) const;
  NamedTensors parameters_of_stage(int64_t stage) const;

  void set_stall_timeout(std::chrono::milliseconds timeout);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster::parallel
