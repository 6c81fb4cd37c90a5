// ZeRO-1, -2 and -3 (FSDP): data parallel without N copies of optimizer state, gradients, weights.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/parallel/ddp/ddp.h"
#include "muster/parallel/module/loss_share.h"
#include "muster/parallel/module/module_tree.h"
#include "muster/parallel/sharded/zero_core.h"
#include "muster/tensor/unit_call.h"

namespace muster::parallel {

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
                              .gradient_as_bucket_view = true,
                              .comm_hook = options.comm_hook});
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
  /// The same of the parameters whose names `of` picks: a group of the optimizer.
  ///
  ///     const auto is_norm = [](const std::string& name) { return name.find("norm") != name.npos; };
  ///     std::vector<torch::optim::OptimizerParamGroup> groups;
  ///     groups.emplace_back(zero.shard(is_norm), …);
  ///     groups.emplace_back(zero.shard([&](const auto& name) { return !is_norm(name); }), …);
  std::vector<at::Tensor> shard(const std::function<bool(const std::string& name)>& of) const {
    return core_->shard(of);
  }

  // Of the module, as DistributedDataParallel's. In stage 3 parameters have values within forward
  // and backward and while whole_weights() are kept.
  auto parameters() const { return module_->parameters(); }
  auto named_parameters() const { return module_->named_parameters(); }
  auto buffers() const { return module_->buffers(); }
  void train(bool on = true) { module_->train(on); }
  void eval() { module_->eval(); }
  bool is_training() const { return module_->is_training(); }
  const distributed::ProcessGroup& group() const { return core_->parameters().group(); }

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
    const auto pause = no_sync();
    pass();
  }
  /// As DistributedDataParallel's. In stages 2 and 3, whose gradients have no room to wait in, each
  /// backward sums into the shards all the same: the sums are those, and travel as often as there
  /// are backwards.
  [[nodiscard]] NoSync no_sync() { return ddp_ ? ddp_->no_sync() : NoSync(nullptr); }
  [[nodiscard]] NoSync accumulate(int64_t micro, int64_t count) {
    return ddp_ ? ddp_->accumulate(micro, count) : NoSync(nullptr);
  }
  /// As DistributedDataParallel's. In stages 2 and 3 they are averages already.
  void average_gradients() {
    if (ddp_) ddp_->average_gradients();
  }

  /// As DistributedDataParallel's; the first is collective.
  at::Tensor weigh(const at::Tensor& mean_loss, int64_t samples) const {
    return weigh(mean_loss, samples, samples_of_all(samples, group()));
  }
  at::Tensor weigh(const at::Tensor& mean_loss, int64_t samples, int64_t samples_of_all) const {
    if (ddp_) return ddp_->weigh(mean_loss, samples, samples_of_all);
    return share_of_loss(mean_loss, samples, samples_of_all, core_->ranks_of_mean());
  }

  /// Stages 1 and 2: as DistributedDataParallel's, for ranks with different numbers of batches.
  /// `optimizer` is the one that `body` steps: a rank whose body has returned goes on updating its
  /// shard by it until all have ended. zero_grad() lies before the first forward of a step; `body`
  /// steps and clips by this object. Collective. Throws a usage error in stage 3, where the ranks that
  /// have ended would have to gather units in an order that only a forward and backward of their own
  /// tells: weigh(loss, 0) on a rank without samples, see Note [Join of shards].
  ///
  ///     zero.join(adam, [&] { for (auto& batch : *loader) step(batch); });
  template <class Optimizer>
  void join(Optimizer& optimizer,
            const std::function<void()>& body,
            const JoinOptions& options = {}) {
    if (const auto tensors = detail::updated_tensors(optimizer)) core_->require_shard(*tensors);
    core_->join(
        options, [&] { optimizer.step(); }, body, ddp_ ? &ddp_->gradient_sync() : nullptr);
  }

  /// As DistributedDataParallel's. In stages 2 and 3 a hook changes what of a bucket is reduced and
  /// scattered: throws a usage error for one that averages whole buckets by itself, as powersgd and
  /// functions do (CommHook::scatters).
  void register_comm_hook(std::shared_ptr<CommHook> hook) {
    if (!ddp_) return core_->register_comm_hook(std::move(hook));
    ddp_->register_comm_hook(std::move(hook));
  }
  void register_comm_hook(CommHookFunction hook) {
    register_comm_hook(make_comm_hook(std::move(hook)));
  }
  /// Of stage 1, whose averages are DistributedDataParallel's.
  BucketMemory bucket_memory() const { return ddp_ ? ddp_->bucket_memory() : BucketMemory(); }

  /// As DistributedDataParallel's: of the hook, and of the buckets of stage 1.
  NamedTensors state() const { return ddp_ ? ddp_->state() : core_->hook_state(); }
  /// Throws a usage error if it does not fit, one of stage 1 into another stage, say.
  void load_state(const NamedTensors& state) {
    if (ddp_) return ddp_->load_state(state);
    core_->load_hook_state(state);
  }

  ZeroCore& core() { return *core_; }
  const ZeroCore& core() const { return *core_; }
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
