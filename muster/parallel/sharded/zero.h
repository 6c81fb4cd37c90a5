// ZeRO-1, -2 and -3 (FSDP): data parallel without N copies of optimizer state, gradients, weights.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/parallel/ddp/ddp.h"
#include "muster/parallel/module/accumulator_hooks.h"
#include "muster/parallel/module/module_tree.h"
#include "muster/parallel/module/parameter_identity.h"
#include "muster/parallel/sharded/gradient_marks.h"
#include "muster/parallel/sharded/sharded_gradients.h"
#include "muster/parallel/sharded/sharded_parameters.h"
#include "muster/parallel/sharded/sharded_units.h"
#include "muster/tensor/unit_call.h"

namespace muster::parallel {

struct ZeroOptions {
  int stage = 2;  ///< 1: optimizer state is sharded; 2: gradients as well; 3: weights, too
  int64_t bucket_bytes = 25 << 20;      ///< of parameters, and of gradients, that travel together
  bool master_weights = true;           ///< see ShardOptions
  bool broadcast_buffers = true;        ///< as DdpOptions
  bool find_unused_parameters = false;  ///< as DdpOptions
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

  /// `tensors` are what an optimizer updates. Throws a usage error if there are parameters of the
  /// module among them, or nothing of this rank's shard.
  void require_shard(const std::vector<at::Tensor>& tensors) const;

  /// Drops all gradients; so does a zero_grad() of the optimizer over the shard, or of the module,
  /// as soon as it is seen: in the next forward, backward or step.
  void zero_grad();

 private:
  ZeroCore(const NamedTensors& parameters,
           const NamedTensors& buffers,
           distributed::ProcessGroup group,
           const ZeroOptions& options,
           std::optional<UnitMap> units);

  void broadcast(const std::vector<at::Tensor>& tensors) const;
  void take_weights();
  void watch_backwards();
  /// By a zero_grad() of the optimizer, or in stage 2 of the module; see Note [Gradient marks].
  bool dropped() const;

  ShardedParameters parameters_;
  std::unique_ptr<ShardedParameters> frozen_;  // stage 3
  std::shared_ptr<ShardedUnits> units_;        // stage 3
  ParameterIdentity identity_;
  std::vector<at::Tensor> buffers_;
  std::unique_ptr<ShardedGradients> gradients_;  // stages 2 and 3
  GradientMarks marks_;                          // of the shard
  std::weak_ptr<void> backward_;                 // stage 1: the one under way
  AccumulatorHooks hooks_;                       // stage 1
};

namespace detail {

/// What an optimizer updates, for those that say it: torch::optim's and muster::optim's.
template <class Optimizer>
std::optional<std::vector<at::Tensor>> updated_tensors(Optimizer& optimizer) {
  std::vector<at::Tensor> all;
  if constexpr (requires { optimizer.param_groups(); }) {
    for (auto& group : optimizer.param_groups())
      all.insert(all.end(), group.params().begin(), group.params().end());
  } else if constexpr (requires { optimizer.parameters(); }) {
    all = optimizer.parameters();
  } else {
    return std::nullopt;  // it has a step() and tells nothing
  }
  return all;
}

/// Sparse gradients cannot be cut into shards. Throws a usage error that names the layer's weight.
void refuse_sparse_gradients(const NamedTensors& parameters,
                             const std::vector<std::string>& sparse);

template <class Module>
NamedTensors shardable_parameters_of(Module& module) {
  const NamedTensors parameters = named_parameters_of(module);
  if constexpr (kIsTorchModule<Module>)
    refuse_sparse_gradients(parameters, sparse_gradient_names(module_of(module)));
  return parameters;
}

}  // namespace detail

/// An optimizer over zero.shard() as one over the module, for whoever steps it and looks at its
/// gradients: GradScaler. Made by ShardedDataParallel::optimizer(); outlives neither.
template <class Optimizer>
class ZeroOptimizer {
 public:
  ZeroOptimizer(ZeroCore& core, Optimizer& optimizer) : core_(core), optimizer_(optimizer) {
    if (const auto tensors = detail::updated_tensors(optimizer_)) core_.require_shard(*tensors);
  }

  /// As ShardedDataParallel::step(). Collective.
  void step() {
    core_.step([this] { optimizer_.step(); });
  }
  void zero_grad() { core_.zero_grad(); }
  /// Each with its gradient of the next step; see ZeroCore::gradient_holders().
  std::vector<at::Tensor> parameters() const { return core_.gradient_holders(); }
  /// Whose ranks must all make a step, or none.
  const distributed::ProcessGroup& group() const { return core_.parameters().group(); }

 private:
  ZeroCore& core_;
  Optimizer& optimizer_;
};

/// Wraps a module as DistributedDataParallel does, and gives the optimizer this rank's shard:
///
///     muster::parallel::ShardedDataParallel zero(net, group, {.stage = 2});
///     torch::optim::Adam adam(zero.shard(), 1e-3);          // any optimizer of Note [ZeRO]
///     …
///     adam.zero_grad();                                     // or zero.zero_grad()
///     torch::nn::functional::cross_entropy(zero->forward(x), y).backward();
///     zero.step(adam);                                      // instead of adam.step()
///
/// Results are DDP's: bit for bit over backends that sum in rank order, else within rounding. In
/// stages 2 and 3 the parameters have no gradients after backward: the sums are in the shards, and
/// zero_grad() of the optimizer or of the whole module drops those. adam.step() by itself throws,
/// as whatever else reads gradients where there are none; see Note [Gradient marks]. Used by the
/// rank's own thread; construction, forward, backward and step are collective. Make it before
/// the optimizer, and do not move the module afterwards. Weights may be loaded at any time, alike
/// on all ranks. With GradScaler:
///
///     auto sharded = zero.optimizer(adam);
///     …
///     scaler.scale(loss).backward();
///     scaler.unscale(sharded);                              // only to clip: zero.clip_grad_norm()
///     scaler.step(sharded);                                 // zero.step(adam), or left out
///     scaler.update();
///
/// Stage 3 shards the weights, too: FSDP. The model's units are named, and its forward says where
/// they are:
///
///     for (size_t i = 0; i < layers.size(); ++i)
///       x = muster::tensor::call_unit("layers." + std::to_string(i), layers[i], x);
///     …
///     muster::parallel::ShardedDataParallel zero(
///         net, group, {.stage = 3, .units = {{"layers.0"}, …}});
///
/// Weights are there within forward and backward and while whole_weights() are kept; else whoever
/// reads or writes them gets an error that says so. Parameters that are frozen when it is made are in
/// shards as the others, without gradients.
///
/// Throws a usage error for a module with sparse gradients.
template <class Module>
class ShardedDataParallel {
 public:
  explicit ShardedDataParallel(Module module,
                               distributed::ProcessGroup group,
                               const ZeroOptions& options = {})
      : module_(std::move(module)),
        core_(std::make_unique<ZeroCore>(detail::shardable_parameters_of(module_),
                                         detail::named_buffers_of(module_),
                                         group,
                                         options)) {
    if (options.stage == 1) {
      ddp_.emplace(module_,
                   std::move(group),
                   DdpOptions{.bucket_bytes_cap = options.bucket_bytes,
                              .find_unused_parameters = options.find_unused_parameters,
                              .broadcast_buffers = options.broadcast_buffers,
                              // Else gradients would be held twice.
                              .gradient_as_bucket_view = true});
    }
    if constexpr (detail::kIsTorchModule<Module>) tree_.emplace(detail::module_of(module_));
  }

  template <class... Arguments>
  auto forward(Arguments&&... arguments) {
    return run_forward(
        [&] { return detail::module_of(module_).forward(std::forward<Arguments>(arguments)...); });
  }
  /// As DistributedDataParallel's.
  template <class Pass>
  auto run_forward(Pass&& pass) {
    check_module();
    core_->before_forward();
    if (ddp_) return ddp_->run_forward(pass);
    if (core_->units() == nullptr) return pass();
    return run_units(pass);
  }
  template <class... Arguments>
  auto operator()(Arguments&&... arguments) {
    return forward(std::forward<Arguments>(arguments)...);
  }
  ShardedDataParallel* operator->() { return this; }

  /// What this rank's optimizer gets // each [piece]. See ShardedParameters.
  std::vector<at::Tensor> shard() const { return core_->parameters().shard_tensors(); }

  /// optimizer.step(), and the parameters of all ranks. Collective. Throws a usage error for an
  /// optimizer over the module's parameters instead of shard().
  template <class Optimizer>
  void step(Optimizer& optimizer) {
    this->optimizer(optimizer).step();
  }
  /// The same as an object. `optimizer` outlives it.
  template <class Optimizer>
  ZeroOptimizer<Optimizer> optimizer(Optimizer& optimizer) {
    return {*core_, optimizer};
  }
  double clip_grad_norm(double max_norm) { return core_->clip_grad_norm(max_norm); }
  void zero_grad() { core_->zero_grad(); }

  /// Stage 3: while it lives, between steps, all weights are whole on every rank, for whoever looks
  /// at them, loads them (alike on all ranks) or runs the module itself. Collective to make.
  /// Outlives neither this nor a step.
  WholeWeights whole_weights() { return WholeWeights(core_->units()); }
  /// See ZeroCore.
  NamedTensors gather_weights() { return core_->gather_weights(); }
  NamedTensors own_weights() { return core_->own_weights(); }
  void load_weights(const NamedTensors& weights) { core_->load_weights(weights); }
  /// Stage 3: a forward without gradients from which other ranks may stand aside. Throws a usage
  /// error unless it calls all units, once each, in the order in which they were named.
  template <class Pass>
  auto evaluate(Pass&& pass) {
    check_module();
    core_->before_forward();
    return run_units(pass, /*in_named_order=*/true);
  }
  /// Stage 3: takes part in evaluate() of the other ranks; this one has no batch left. Collective.
  void stand_aside() {
    core_->before_forward();
    core_->units()->stand_aside();
  }

  /// Runs `pass`, a forward and backward whose gradients add up with those of the next. Stage 1
  /// averages them in the next backward outside; stage 2 sums each backward into the shards.
  template <class Pass>
  void accumulate(Pass&& pass) {
    if (!ddp_) return pass();
    const auto pause = ddp_->no_sync();
    pass();
  }

  ZeroCore& core() { return *core_; }
  Module& module() { return module_; }

 private:
  /// Stage 3.
  template <class Pass>
  auto run_units(Pass& pass, bool in_named_order = false) {
    ShardedUnits& units = *core_->units();
    const UnitsInForward scope(units, in_named_order);
    if constexpr (std::is_void_v<decltype(pass())>) {
      pass();
      units.end_forward();
    } else {
      auto result = pass();
      units.end_forward();
      return result;
    }
  }

  void check_module() {
    if constexpr (detail::kIsTorchModule<Module>) {
      if (tree_->holds(detail::module_of(module_))) return;
      const NamedTensors now = detail::named_parameters_of(module_);
      if (!core_->identity().holds(now)) core_->identity().throw_changed(now);
      tree_.emplace(detail::module_of(module_));
    }
  }

  Module module_;
  std::unique_ptr<ZeroCore> core_;
  std::optional<DistributedDataParallel<Module>> ddp_;  // stage 1
  std::optional<ModuleTree> tree_;
};

}  // namespace muster::parallel
