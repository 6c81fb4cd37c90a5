// One model on many ranks: each rank runs its share of the batch, and gradients are averaged during
// backward.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/parallel/gradient_sync.h"
#include "muster/parallel/tensors.h"

namespace muster::parallel {

namespace detail {

/// The module behind a holder (TORCH_MODULE), a shared_ptr, or a plain pointer.
template <class Module>
auto& module_of(Module& module) {
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

}  // namespace detail

/// Wraps a module; the wrapped one is called like the module itself, with any arguments and any
/// result:
///
///     muster::parallel::ProcessGroup group = muster::parallel::init_process_group();
///     muster::parallel::DistributedDataParallel ddp(net, group);       // net: any TORCH_MODULE
///     holder or shared_ptr torch::nn::functional::cross_entropy(ddp->forward(x), y).backward();
///     optimizer.step();                                                // any optimizer over
///     net->parameters()
///
/// With equal shares of a batch and a mean loss, gradients equal those of one rank on the whole
/// batch (batch statistics of BatchNorm excepted). The parameters become rank 0's at construction.
/// Used by the rank's own thread; construction and forward are collective. Do not move the module
/// to another device or dtype after it was wrapped.
template <class Module>
class DistributedDataParallel {
 public:
  explicit DistributedDataParallel(Module module, ProcessGroup group, DdpOptions options = {})
      : module_(std::move(module)),
        sync_(std::make_unique<GradientSync>(detail::named_parameters_of(module_),
                                             detail::named_buffers_of(module_),
                                             std::move(group),
                                             std::move(options))) {}

  template <class... Arguments>
  auto forward(Arguments&&... arguments) {
    sync_->before_forward();
    auto result = detail::module_of(module_).forward(std::forward<Arguments>(arguments)...);
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

  const ProcessGroup& group() const { return sync_->group(); }

  /// While the guard lives, gradients add up on this rank alone; the first step after it averages
  /// the sum. Forward and backward must both be inside:
  ///
  ///     { auto pause = ddp.no_sync(); loss(ddp->forward(a)).backward(); }   // accumulates
  ///     loss(ddp->forward(b)).backward();                                    // averages both
  class NoSync {
   public:
    explicit NoSync(GradientSync& sync) : sync_(sync), before_(sync.sync()) {
      sync_.set_sync(false);
    }
    ~NoSync() { sync_.set_sync(before_); }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    GradientSync& sync_;
    bool before_;
  };
  [[nodiscard]] NoSync no_sync() { return NoSync(*sync_); }

 private:
  Module module_;
  std::unique_ptr<GradientSync> sync_;
};

}  // namespace muster::parallel
