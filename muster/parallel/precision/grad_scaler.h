// Loss scaling for float16, agreed by all ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "muster/base/json_fwd.h"
#include "muster/distributed/process_group.h"

namespace muster::parallel {

/// Names and defaults of torch.amp.GradScaler.
struct GradScalerOptions {
  double init_scale = 65536;       ///< this and the factors count as the float32 that they become
  double growth_factor = 2;        ///< above 1
  double backoff_factor = 0.5;     ///< below 1
  int64_t growth_interval = 2000;  ///< steps without overflow after which the scale grows
  bool enabled = true;             ///< false: scale() and the others do nothing, step() steps
};

/// torch.amp.GradScaler. Small gradients would become 0 in float16, so the loss is multiplied by a
/// large scale before backward and gradients are divided by it after; where one is not finite, the
/// optimizer's step is left out and the scale falls.
///
///     scaler.scale(loss).backward();
///     scaler.unscale(optimizer);                     // only to look at gradients or clip them
///     optim::clip_grad_norm(net->parameters(), 1.0);
///     scaler.step(optimizer);                        // or leaves it out
///     scaler.update();
///
/// With a group, all ranks leave a step out if any of them must: DDP's gradients are equal, but
/// those of sharded optimizers, of pipeline stages and of parameters that DDP ignores are not.
/// unscale() (or step() without it) is then collective: one maximum of 8 bytes.
///
/// An optimizer is torch::optim::Optimizer, or any type with step() and param_groups() or
/// parameters(); one over the shards of ZeRO is given as ShardedDataParallel::optimizer(adam), and
/// brings its group. Used by the rank's own thread. Wrong order of calls is a usage error, and so
/// is a step of an optimizer none of whose parameters has a gradient on any rank.
class GradScaler {
 public:
  explicit GradScaler(GradScalerOptions options = {},
                      std::optional<distributed::ProcessGroup> group = std::nullopt);

  /// `outputs` times the scale, in their dtype and on their device.
  at::Tensor scale(const at::Tensor& outputs);

  /// Divides the optimizer's gradients by the scale, in place, and notes whether all are finite.
  /// Once per step. float16 gradients are refused: parameters stay float32.
  template <class Optimizer>
  void unscale(Optimizer& optimizer) {
    unscale(&optimizer, parameters_of(optimizer), group_of(optimizer));
  }

  /// optimizer.step(), unless a gradient of any rank is not finite. True if the step was made.
  template <class Optimizer>
  bool step(Optimizer& optimizer) {
    const bool make = begin_step(
        &optimizer, [&] { return parameters_of(optimizer); }, group_of(optimizer));
    if (make) optimizer.step();
    return make;
  }

  /// Once per iteration, after the steps of all optimizers: adjusts the scale.
  void update();
  /// The scale is this from now on.
  void update(double new_scale);

  double scale() const;  ///< 1 if not enabled. Waits for the device
  bool enabled() const { return options_.enabled; }
  /// Steps left out since the scaler was made.
  int64_t skipped_steps() const { return skipped_; }

  /// torch's state_dict: scale, growth_factor, backoff_factor, growth_interval, _growth_tracker;
  /// empty if not enabled. The same on all ranks that share a group.
  Json state() const;
  /// Throws a usage error for one that is not of a GradScaler, or whose numbers it would not take as
  /// options; this one is as before then.
  void load_state(const Json& state);

 private:
  enum class Stage { kReady, kUnscaled, kStepped };
  struct OfOptimizer {
    Stage stage = Stage::kReady;
    at::Tensor found_inf;  // [] float32: 0, or more if a gradient of any rank is not finite
    at::Tensor found_any;  // [] float32: 0, or more if any rank has a gradient
  };

  template <class Optimizer>
  static std::vector<at::Tensor> parameters_of(Optimizer& optimizer) {
    if constexpr (requires { optimizer.param_groups(); }) {
      std::vector<at::Tensor> all;
      for (auto& group : optimizer.param_groups())
        all.insert(all.end(), group.params().begin(), group.params().end());
      return all;
    } else {
      return optimizer.parameters();
    }
  }

  /// The group whose ranks step together: this object's, or else the optimizer's own, if any.
  template <class Optimizer>
  const distributed::ProcessGroup* group_of(Optimizer& optimizer) const {
    if (group_) return &*group_;
    if constexpr (requires { optimizer.group(); }) return &optimizer.group();
    return nullptr;
  }

  void place(at::Device device);
  void require_scale(const char* call) const;
  void unscale(const void* optimizer,
               const std::vector<at::Tensor>& parameters,
               const distributed::ProcessGroup* group);
  bool begin_step(const void* optimizer,
                  const std::function<std::vector<at::Tensor>()>& parameters,
                  const distributed::ProcessGroup* group);

  GradScalerOptions options_;
  std::optional<distributed::ProcessGroup> group_;
  at::Tensor scale_;    // [] float32 on the device of the first outputs; undefined before
  at::Tensor tracker_;  // [] int32: steps without overflow since the scale changed
  std::map<const void*, OfOptimizer> optimizers_;  // since the last update
  int64_t skipped_ = 0;
};

}  // namespace muster::parallel
