// One model on many ranks: each rank runs its share of the batch, and gradients are averaged during
// backward.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/parallel/ddp/gradient_sync.h"
#include "muster/parallel/ddp/sparse_layers.h"
#include "muster/parallel/module/module_tree.h"
#include "muster/parallel/module/parameter_identity.h"
#include "muster/parallel/module/tensors.h"

namespace muster::parallel {

namespace detail {

[[noreturn]] void refuse_no_module();

/// The module behind a holder (TORCH_MODULE), a shared_ptr, or a plain pointer.
template <class Module>
auto& module_of(Module& module) {
  if constexpr (requires { static_cast<bool>(module); }) {
    if (!static_cast<bool>(module)) refuse_no_module();
  }
  return *module;
}

template <class Module>
NamedTensors named_parameters_of(Module& module) {
  NamedTensors out;
  for (const auto& item : module_of(module).named_parameters())
    out.emplace_back(item.key(), item.value());
  return out;
}

template <class Module>
NamedTensors named_buffers_of(Module& module) {
  NamedTensors out;
  for (const auto& item : module_of(module).named_buffers())
    out.emplace_back(item.key(), item.value());
  return out;
}

/// False for a class of the user's own that only looks like a torch::nn::Module.
template <class Module>
constexpr bool kIsTorchModule =
    std::is_convertible_v<decltype(module_of(std::declval<Module&>())), const torch::nn::Module&>;

template <class Module>
DdpOptions with_sparse_layers(Module& module, DdpOptions options) {
  if constexpr (kIsTorchModule<Module>) {
    for (std::string& name : sparse_gradient_names(module_of(module)))
      options.sparse_gradients.push_back(std::move(name));
  }
  return options;
}

}  // namespace detail

/// While it lives, the gradients of one wrapped module add up on this rank alone; see no_sync() of
/// DistributedDataParallel and of ShardedDataParallel. Without `sync`, or not active: nothing.
class NoSync {
 public:
  explicit NoSync(GradientSync* sync, bool active = true) : sync_(active ? sync : nullptr) {
    if (sync_ == nullptr) return;
    before_ = sync_->sync();
    sync_->set_sync(false);
  }
  ~NoSync() {
    if (sync_ != nullptr) sync_->set_sync(before_);
  }
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  GradientSync* sync_;
  bool before_ = true;
};

/// Wraps a module; the wrapped one is called like the module itself, with any arguments and any
/// result:
///
///     // net: any TORCH_MODULE holder or shared_ptr; optimizer: any over net->parameters()
///     muster::distributed::ProcessGroup group = muster::distributed::init_process_group();
///     muster::parallel::DistributedDataParallel ddp(net, group);
///     torch::nn::functional::cross_entropy(ddp->forward(x), y).backward();
///     optimizer.step();
///
/// With equal shares of a batch and a mean loss, gradients equal those of one rank on the whole
/// batch (batch statistics of BatchNorm excepted: see sync_batch_norm.h); weigh() is for unequal
/// shares. The parameters become rank 0's at construction. Used by the rank's own thread;
/// construction and forward are collective. Weights may be loaded after the wrap, alike on all
/// ranks (torch::load()). Forward throws a usage error if a parameter was moved to another device
/// or dtype, replaced, or unfrozen after the module was wrapped; backward for gradients that would
/// not be averaged, see Note [Which backward is averaged]. Guide: docs/ddp.md.
template <class Module>
class DistributedDataParallel {
 public:
  explicit DistributedDataParallel(Module module,
                                   distributed::ProcessGroup group,
                                   DdpOptions options = {})
      : module_(std::move(module)),
        sync_(std::make_unique<GradientSync>(
            detail::named_parameters_of(module_),
            detail::named_buffers_of(module_),
            std::move(group),
            detail::with_sparse_layers(module_, std::move(options)))) {
    if constexpr (detail::kIsTorchModule<Module>) tree_.emplace(detail::module_of(module_));
  }

  template <class... Arguments>
  auto forward(Arguments&&... arguments) {
    return run_forward(
        [&] { return detail::module_of(module_).forward(std::forward<Arguments>(arguments)...); });
  }

  /// For a forward that is more than one call of the module's own: `pass` calls the module as it
  /// likes, may go on to the loss, and returns the tensors that backward will start from.
  /// Collective, as forward() is.
  template <class Pass>
  auto run_forward(Pass&& pass) {
    check_module();
    sync_->before_forward();
    auto result = pass();
    std::vector<at::Tensor*> outputs;
    auto collect = [&](at::Tensor& tensor) { outputs.push_back(&tensor); };
    detail::visit_tensors(result, collect);
    sync_->after_forward(outputs);
    return result;
  }

  template <class... Arguments>
  auto operator()(Arguments&&... arguments) {
    return forward(std::forward<Arguments>(arguments)...);
  }

  /// So that `ddp->forward(x)` reads as it did for the module.
  DistributedDataParallel* operator->() { return this; }

  Module& module() { return module_; }
  auto parameters() const { return module_->parameters(); }
  auto named_parameters() const { return module_->named_parameters(); }
  auto buffers() const { return module_->buffers(); }
  void train(bool on = true) { module_->train(on); }
  void eval() { module_->eval(); }
  bool is_training() const { return module_->is_training(); }
  void zero_grad() { sync_->zero_grad(); }

  const distributed::ProcessGroup& group() const { return sync_->group(); }

  /// While the guard lives, gradients add up on this rank alone; the first step after it averages
  /// the sum. Forward and backward must both be inside; backward throws a usage error otherwise:
  ///
  ///     { auto pause = ddp.no_sync(); loss(ddp->forward(a)).backward(); }   // accumulates
  ///     loss(ddp->forward(b)).backward();                                   // averages both
  [[nodiscard]] NoSync no_sync() { return NoSync(sync_.get()); }

  /// Gradient accumulation: no_sync() for all but the last of `count` micro-batches, so that
  /// gradients travel once per optimizer step:
  ///
  ///     for (int64_t micro = 0; micro < count; ++micro) {
  ///       const auto scope = ddp.accumulate(micro, count);
  ///       (loss(ddp->forward(x[micro]), y[micro]) / count).backward();
  ///     }
  ///     optimizer.step();
  [[nodiscard]] NoSync accumulate(int64_t micro, int64_t count) {
    return NoSync(sync_.get(), micro + 1 < count);
  }

  /// Averages, now, what backwards under no_sync() have added up on each rank: for loops that learn
  /// only behind a backward that it was the last of the step. As if that had been synchronised, but
  /// nothing travels beside it, and it takes the gradients' memory once more. A parameter counts as
  /// zero on a rank where it has no gradient, and stays without one if no rank has one. Collective.
  /// Throws a usage error for sparse gradients, and within join.
  ///
  ///     { auto pause = ddp.no_sync(); while (more()) loss(ddp->forward(next())).backward(); }
  ///     ddp.average_gradients();
  void average_gradients() { sync_->average_gradients(); }

  /// A mean loss over this rank's `samples`, weighted so that the averaged gradient is that of the
  /// mean over the samples of all ranks, however uneven the shares: times samples x ranks /
  /// (samples of all). A rank without samples calls forward with any input and weighs with 0.
  /// Collective: one sum of 8 bytes. Throws a usage error if no rank has a sample.
  at::Tensor weigh(const at::Tensor& mean_loss, int64_t samples) const {
    return sync_->weigh(mean_loss, samples);
  }
  /// Where the number over all ranks is known (with accumulation: over all micro-batches of the
  /// optimizer step, too); not collective.
  at::Tensor weigh(const at::Tensor& mean_loss, int64_t samples, int64_t samples_of_all) const {
    return sync_->weigh(mean_loss, samples, samples_of_all);
  }

  /// Runs `body`, a loop over this rank's batches, where ranks have different numbers of them. A
  /// rank whose body has returned takes part in the others' collectives with zeros until all have
  /// ended; then all ranks take parameters and buffers of the rank that worked last (the
  /// optimizer's state is not shared). Between the forwards of `body` there may be no collective of
  /// its own (SyncBatchNorm and GradScaler with a group have some). Desync checks rest meanwhile.
  /// What `body` throws passes through; the other ranks then wait for this one until their timeout.
  /// Collective.
  void join(const std::function<void()>& body, const JoinOptions& options = {}) {
    sync_->join(options, body);
  }

  /// How gradients travel from now on, instead of DdpOptions::comm_hook; on every rank alike,
  /// before the first backward. Throws a usage error if there is a hook already.
  void register_comm_hook(std::shared_ptr<CommHook> hook) {
    sync_->register_comm_hook(std::move(hook));
  }
  void register_comm_hook(CommHookFunction hook) {
    sync_->register_comm_hook(make_comm_hook(std::move(hook)));
  }

  /// What a checkpoint needs, beside model and optimizer, to go on bit for bit: the bucket size,
  /// and the state of the communication hook, which differs between ranks: every rank keeps its
  /// own.
  NamedTensors state() const { return sync_->state(); }
  /// Before the first forward. Throws a usage error if it does not fit.
  void load_state(const NamedTensors& state) { sync_->load_state(state); }

  /// What it does, without the module's type: for ZeRO's stage 1, whose averages these are.
  GradientSync& gradient_sync() { return *sync_; }

  /// The cap in use: the one that is being tried while kAutoBucketBytes searches.
  int64_t bucket_bytes_cap() const { return sync_->bucket_bytes_cap(); }
  /// For a report of memory that ran out.
  BucketMemory bucket_memory() const { return sync_->bucket_memory(); }

 private:
  void check_module() {
    if constexpr (detail::kIsTorchModule<Module>) {
      if (tree_->holds(detail::module_of(module_))) return;
      const NamedTensors now = detail::named_parameters_of(module_);
      if (!sync_->identity().holds(now)) sync_->identity().throw_changed(now);
      tree_.emplace(detail::module_of(module_));  // another activation, say
    }
  }

  Module module_;
  std::unique_ptr<GradientSync> sync_;
  std::optional<ModuleTree> tree_;
};

}  // namespace muster::parallel
