// One model cut into stages on the ranks of a group, a process each.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "muster/distributed/device_mesh.h"
#include "muster/distributed/process_group.h"
#include "muster/parallel/module/loss_reduction.h"
#include "muster/parallel/module/tensors.h"
#include "muster/parallel/pipeline/block.h"
#include "muster/parallel/pipeline/callbacks.h"
#include "muster/parallel/pipeline/micro_batches.h"
#include "muster/parallel/pipeline/pipeline.h"
#include "muster/parallel/pipeline/tied_parameters.h"
#include "muster/pipeline/partition/blocks.h"

namespace muster::parallel {

struct DistributedPipelineOptions {
  std::string schedule = "1f1b";  ///< of `muster list schedules`, "interleaved", "zb1p", …
  int64_t micro_batches = 1;      ///< into which a batch is cut; fewer if it has fewer rows
  /// By stage, the block that it begins with. Empty: each block is a stage.
  pipeline::Split first_block = {};
  LossReduction reduction = LossReduction::kMean;
  std::vector<TiedParameter> tied = {};
  /// By block, whether it is checkpointed (Note [Recomputation]). Empty: none.
  std::vector<bool> checkpointed = {};
  /// By stage, whether its activations wait on the host (Note [Activation offload]), where its device
  /// is another one. Empty: none.
  std::vector<bool> offloaded = {};
  /// Of a mesh: whose ranks have the stages; and whose have the same stages of other pipelines,
  /// over which gradients are averaged as soon as they are whole, as DDP does. There may be none.
  std::string pipeline_axis = "pipeline", data_axis = "data";
  bool keeps_outputs = false;     ///< PipelineStep::outputs on the last stage's rank
  bool synchronizes = false;      ///< devices behind each action: times are true, steps slower
  bool gathers_timeline = false;  ///< PipelineStep::timeline has all ranks; else this one alone
  std::optional<c10::Device> device = {};  ///< of this rank's stages; else the group's
  /// A message that takes longer ends the step; 0: the group's timeout.
  std::chrono::milliseconds timeout{0};
  /// So long a rank waits for the others to come to a step, and, when it has done its part of it or has
  /// given it up, for them to do theirs; 0: as long as the group does. Longer than a step takes, and
  /// than what a rank does between two. Where ranks wait else (averages over replicas, clip_grad_norm()),
  /// the groups' timeout holds: see SplitOptions of the mesh.
  std::chrono::milliseconds stall_timeout{0};
  /// Called on each rank whose step fails, by the thread that made it, before gradients are dropped.
  /// Must not throw.
  std::function<void()> before_drop = {};
};

// Note [Pipelines across processes]
// The schedules, stages and gradients are those of Pipeline; what goes to another rank is a message
// of the group (Note [Letters]), so ranks may be on several hosts. All ranks make the whole model,
// alike, and keep their own stages' blocks on their device. A step begins and ends with a few
// numbers that all ranks tell each other: it is the same step to all, of as many micro-batches, or
// none takes it; and none returns before all have done their part, so that no optimizer steps where
// another's part failed. With replicas that holds over all pipelines.
//
// A rank that throws tells those that wait for it, and all throw: it what it threw, the others what
// it said. The gradients of this step and of those added up before are dropped, and the next step
// begins anew. A rank that has died ends the group, as it ends any other.
//
// One that stalls ends the step for those that wait for its messages longer than `timeout`. They meet
// it when it is back, which all name then with the action that took so long, and the next step begins
// anew, too. If it is not back after stall_timeout, they throw the group's error, which names it with
// the action that it is at (distributed::RankActivity), and no rank that only waits for it. The group
// is over then.

/// Trains a model that is cut over processes:
///
///     const distributed::DeviceMesh mesh(world, {{"data", -1}, {"pipeline", 4}});
///     parallel::DistributedPipeline pipe(parallel::blocks_of(net), mesh, loss,
///                                        {.schedule = "1f1b", .micro_batches = 8,
///                                         .first_block = {0, 3, 6, 9}});
///     torch::optim::SGD optimizer(pipe.parameters(), 0.1);
///     for (…) {
///       optimizer.zero_grad();
///       auto loss = pipe.step(pipe.has_first_stage() ? Tensors{x} : Tensors{},
///                             pipe.has_last_stage() ? Tensors{y} : Tensors{}).loss;
///       optimizer.step();
///     }
///
/// All calls but those that say otherwise are collective over the group, and over all replicas. Used by
/// one thread at a time. Source of the semantics: torch.distributed.pipelining, Megatron-LM.
class DistributedPipeline {
 public:
  /// Moves this rank's stages to its device. Replicas begin with what replica 0 has. Throws
  /// a usage error, on all ranks alike, if they do not make the same model and give the same
  /// options, or what Pipeline refuses.
  DistributedPipeline(std::vector<Block> blocks,
                      const distributed::ProcessGroup& ranks,
                      PipelineLoss loss,
                      DistributedPipelineOptions options = {});
  /// The same with replicas, if the mesh has an axis for them. Collective over the mesh.
  DistributedPipeline(std::vector<Block> blocks,
                      const distributed::DeviceMesh& mesh,
                      PipelineLoss loss,
                      DistributedPipelineOptions options = {});
  ~DistributedPipeline();
  DistributedPipeline(DistributedPipeline&&) noexcept;
  DistributedPipeline& operator=(DistributedPipeline&&) noexcept;

  /// Forward and backward of a batch: the rank of the first stage gives the inputs, that of the
  /// last the targets; others give none, and what they give all the same is not looked at. Adds to
  /// the gradients of this rank's stages `scale` times those of the loss over the batch, averaged
  /// over the replicas, which count alike whatever rows they have, unless each gives a scale of its
  /// own. The loss is on all ranks, of this pipeline's batch.
  PipelineStep step(const Tensors& inputs, const Tensors& targets, double scale = 1);
  /// The same of micro-batches that are cut already, as many on all ranks; their counts matter on
  /// the last stage's rank.
  PipelineStep step(std::vector<MicroBatch> batches, double scale = 1);
  /// The same of those that `make` makes; what it throws on one rank ends the step on all.
  PipelineStep step(const std::function<std::vector<MicroBatch>()>& make, double scale = 1);

  /// The last stage's outputs on its rank, nothing on others, of each replica's own inputs. Without
  /// gradients. Say eval() before.
  Tensors forward(const Tensors& inputs);
  /// The same of micro-batches, as many on all ranks, each by itself.
  std::vector<Tensors> forward(const std::function<std::vector<MicroBatch>()>& make);

  /// Makes the whole model that rank `root` was given current: blocks of other ranks' stages get
  /// their parameters and buffers. Each replica has a root.
  void gather_model(int root = 0);

  /// As optim::clip_grad_norm with the 2-norm: scales the gradients of all ranks' stages so that
  /// the norm of all of them together is at most `max_norm`. Returns the norm before, the same on
  /// every rank. Not over the replicas, whose gradients are the same. Throws a usage error if
  /// max_norm is negative or NaN.
  double clip_grad_norm(double max_norm);

  // Not collective.

  bool has_first_stage() const;
  bool has_last_stage() const;
  std::vector<int64_t> stages() const;  ///< of this rank
  c10::Device device() const;
  /// Of this rank's stages, by "block.parameter", without tied followers.
  NamedTensors named_parameters() const;
  std::vector<at::Tensor> parameters() const;
  NamedTensors named_buffers() const;
  void train(bool on = true);
  void eval() { train(false); }
  void zero_grad();
  /// From the next step on: what is sent stays in this rank's memory until it has surely been taken,
  /// however late any rank comes, so that a step takes the most that it can. For measurements.
  void hold_letters(bool on = true);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster::parallel
