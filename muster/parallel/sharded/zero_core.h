// What ShardedDataParallel does, without the module's type.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/distributed/process_group.h"
#include "muster/parallel/ddp/join.h"
#include "muster/parallel/hook/comm_hook.h"
#include "muster/parallel/module/accumulator_hooks.h"
#include "muster/parallel/module/parameter_identity.h"
#include "muster/parallel/sharded/gradient_marks.h"
#include "muster/parallel/sharded/sharded_gradients.h"
#include "muster/parallel/sharded/sharded_parameters.h"
#include "muster/parallel/sharded/sharded_units.h"
#include "muster/parallel/sharded/zero_join.h"

namespace muster::parallel {

class GradientSync;

struct ZeroOptions {
  int stage = 2;  ///< 1: optimizer state is sharded; 2: gradients as well; 3: weights, too
  int64_t bucket_bytes = 25 << 20;      ///< of parameters, and of gradients, that travel together
  bool master_weights = true;           ///< see ShardOptions
  bool broadcast_buffers = true;        ///< as DdpOptions
  bool find_unused_parameters = false;  ///< as DdpOptions
  /// How gradients travel: "fp16", … of `muster list comm-hooks`. Stages 2 and 3 take those that
  /// scatter (CommHook::scatters) and refuse the others.
  std::string comm_hook = "none";
  /// Stage 3: what is gathered and released together. See Note [Sharded units].
  std::vector<ShardUnit> units = {};
  /// Where the module is to be from now on: what is elsewhere is brought there bucket by bucket, in
  /// stage 3 unit by unit, so that no device ever has more than that and its shards. Not said: where
  /// its tensors are.
  std::optional<c10::Device> device = {};
};

// Note [ZeRO]
// Source: Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter
// Models", sections 5.1 to 5.3. With N ranks and Adam, bytes per parameter on each rank:
//
//                                     DDP      stage 1      stage 2     stage 3
//     float32                          16     8 +  8/N     4 + 12/N        16/N
//     bfloat16, float32 masters        16     4 + 12/N     2 + 14/N        16/N
//
// (parameter + gradient + two moments and, below, the master). What travels per step is DDP's
// all-reduce cut in two: a reduce-scatter of gradients (stage 1: an all-reduce) and an all-gather
// of parameters. Stage 3 gathers parameters twice, for forward and for backward: half as much again
// as DDP; while it computes two units and the rest are whole, see Note [Sharded units].
//
// The optimizer must treat each element alone, as SGD, Adam, AdamW and RMSprop do; one that takes a
// norm over a whole tensor (LARS, LAMB) or factors it (Adafactor) would see a piece of it.

/// Throws a usage error: `hook` does not scatter.
[[noreturn]] void refuse_hook_of_shards(const std::string& hook);

/// What does not depend on the module's type. Used by the rank's own thread.
class ZeroCore {
 public:
  /// Collective. See ShardedParameters.
  ZeroCore(const NamedTensors& parameters,
           const NamedTensors& buffers,
           distributed::ProcessGroup group,
           const ZeroOptions& options);

  ShardedParameters& parameters() { return parameters_; }
  /// Stage 3: the frozen parameters that are in shards, too; null if there are none.
  const ShardedParameters* frozen() const { return frozen_.get(); }
  bool shards_gradients() const { return gradients_ != nullptr; }
  /// Null but in stage 3.
  const std::shared_ptr<ShardedUnits>& units() const { return units_; }
  /// The parameters in shards, whole, under their names on rank 0's CPU; nothing elsewhere.
  /// Collective: no rank ever holds more of the others' than one tensor.
  NamedTensors gather_weights();
  /// This rank's pieces of them // each [piece], in their own dtype, under their names.
  NamedTensors own_weights();
  /// The reverse, between steps: `weights` // whole, of any device, by name, given alike on all ranks,
  /// become the parameters'. Throws a usage error for another shape, or a name that none in shards has.
  void load_weights(const NamedTensors& weights);

  /// For a report of this rank's memory: what it holds of weights and of gradients beside what the
  /// module's parameters show, by the unit that it is of; where there are none, by the layer of the
  /// bucket's first parameter. Not collective.
  NamedTensors held_weights() const;
  NamedTensors held_gradients() const;

  /// Collective: rank 0's buffers go to all, in stage 2 (in stage 1 DDP does it). Where gradients
  /// are on: weights loaded since are taken; throws a usage error for a parameter that is of
  /// another dtype, device or shape than when it was wrapped, or was unfrozen since.
  void before_forward();
  const ParameterIdentity& identity() const { return identity_; }

  /// `update` is the optimizer's step over all of parameters().shard(); then every rank gets every
  /// rank's part. Collective. Throws as before_forward().
  void step(const std::function<void()>& update);
  /// The same bucket by bucket: while `update(b)`, a step over parameters().shard(b), runs, earlier
  /// buckets travel, and float32 copies of gradients (for masters) exist for one bucket at a time.
  void step_by_bucket(const std::function<void(size_t)>& update);

  /// As optim::clip_grad_norm with the 2-norm: scales the gradients that the next step sees so that
  /// the norm of all ranks' shards together, each parameter once, is at most `max_norm`. Returns
  /// the norm before, the same on every rank. Collective. Throws a usage error if max_norm is
  /// negative.
  double clip_grad_norm(double max_norm);

  /// What the next step sees of a piece of this rank's // [piece], a view in the parameter's dtype;
  /// undefined if it has none.
  at::Tensor gradient(size_t bucket, const ShardPiece& piece) const;

  /// Tensors whose grad() share their memory with all that this rank's next step sees: the
  /// parameters in stage 1, stand-ins for this rank's pieces in stage 2.
  std::vector<at::Tensor> gradient_holders();

  /// This rank's pieces of the parameters whose names `of` picks // each [piece]; a tensor without
  /// elements where it has none. Throws a usage error if `of` picks none of the module's.
  std::vector<at::Tensor> shard(const std::function<bool(const std::string&)>& of);

  /// `tensors` are what an optimizer updates. Throws a usage error if there are parameters of the
  /// module among them, or nothing of this rank's shard.
  void require_shard(const std::vector<at::Tensor>& tensors) const;

  /// Stages 1 and 2: see ShardedDataParallel::join(). `update` is the optimizer's step over the shard;
  /// `averages`, of stage 1 alone, is what averages the module's gradients.
  void join(const JoinOptions& options,
            const std::function<void()>& update,
            const std::function<void()>& body,
            GradientSync* averages);
  /// Stages 2 and 3: over how many ranks the mean of gradients is, for weigh().
  int ranks_of_mean() const;

  /// Stages 2 and 3: how gradients travel from now on. Throws a usage error for a hook that does not
  /// scatter, for a second one, and behind the first backward.
  void register_comm_hook(std::shared_ptr<CommHook> hook);
  /// Of the hook, under "hook/NAME"; and back. Throws a usage error for a state that does not fit.
  NamedTensors hook_state() const;
  void load_hook_state(const NamedTensors& state);

  /// Drops all gradients; so does a zero_grad() of the optimizer over the shard, or of the module,
  /// as soon as it is seen: in the next forward, backward or step.
  void zero_grad();

 private:
  ZeroCore(const NamedTensors& parameters,
           const NamedTensors& buffers,
           distributed::ProcessGroup group,
           const ZeroOptions& options,
           std::optional<UnitMap> units);

  void broadcast(const std::vector<at::Tensor>& tensors, int root = 0) const;
  void take_weights();
  void watch_backwards();
  /// By a zero_grad() of the optimizer, or in stage 2 of the module; see Note [Gradient marks].
  bool dropped() const;

  // Uneven inputs (zero_join.cpp).
  void announce(ZeroJoinCall call, double max_norm = 0);
  bool shadow(const std::function<void()>& update);
  void shadow_forward(const ZeroJoinMeeting& meeting);
  int64_t backwards();

  ShardedParameters parameters_;
  std::unique_ptr<ShardedParameters> frozen_;  // stage 3
  std::shared_ptr<ShardedUnits> units_;        // stage 3
  ParameterIdentity identity_;
  std::vector<at::Tensor> buffers_;  // that are broadcast before each forward
  std::vector<at::Tensor> all_buffers_;
  std::optional<ZeroJoinRun> join_;              // within join()
  std::unique_ptr<ShardedGradients> gradients_;  // stages 2 and 3
  GradientMarks marks_;                          // of the shard
  bool gave_stand_in_ = false;        // of a rank without pieces, to an optimizer's group
  std::weak_ptr<void> backward_;      // stage 1: the one under way
  GradientSync* averages_ = nullptr;  // stage 1, within join()
  int64_t backwards_ = 0;             // the same: in the gradients
  AccumulatorHooks hooks_;            // stage 1
};

}  // namespace muster::parallel
