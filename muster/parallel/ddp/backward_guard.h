// What a wrapped module's outputs know of the forward that made them, when backward reaches them.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace muster::parallel {

class DirectGradients;
class OpenReducer;

// Note [Which backward is averaged]
// c10d, as PyTorch's DDP, averages the first backward that brings all gradients after a forward
// outside of no_sync. What comes later adds up on this rank alone, and nobody says so. What can be
// told to be a mistake is refused here: by the outputs of a forward, which know whether it was
// synchronised, and by each parameter's gradient, which knows whether the Reducer waits for it:
//   - a backward on the other side of no_sync than its forward, by the outputs, before any gradient
//     has changed, or, where a synchronised forward is still to have its backward, by the first
//     gradient that comes from the outputs of unsynchronised forwards alone;
//   - a backward through a synchronised forward whose turn has passed: a second one through the
//     same graph, or one for each of several forwards;
//   - one through a forward of an object that is gone while another one wraps the module;
//   - a parameter that gets a second gradient before the Reducer has them all.
// Under no_sync the Reducer waits for nothing, so that a backward may come between a synchronised
// forward and its own backward (pipelines). A backward that no output takes part in (of a penalty
// on the weights, the same on all ranks) is nobody's business, and as in PyTorch. Used as outputs
// for something else (torch::autograd::grad) nothing reaches a parameter.

/// Shared by a GradientSync and the outputs of its forwards, which may outlive it. Used by the
/// rank's thread, and by those that run its backward while the rank's thread waits for them:
/// autograd has one for each device, and a module may have parameters on several.
struct BackwardGuard : std::enable_shared_from_this<BackwardGuard> {
  OpenReducer* reducer = nullptr;     ///< null once there is none any more
  DirectGradients* direct = nullptr;  ///< null: all gradients travel in the Reducer's buckets
  /// A c10d::Logger: the Reducer reports to one without looking whether it is there, when unused
  /// parameters are searched for and change from step to step. Goes before the Reducer.
  std::shared_ptr<void> logger;
  std::vector<at::Tensor> parameters;  ///< those that are averaged
  bool gone = false;                   ///< the GradientSync is, with all its hooks
  bool sync = true;                    ///< false under no_sync
  bool delay_all = false;  ///< static graph, first step: buckets travel when all else is done

  /// Puts hooks on the outputs of a forward.
  void arm(const std::vector<at::Tensor*>& outputs);

  /// Gradients that arrive now are averaged.
  bool expects() const;

  /// For each gradient, before the Reducer takes it. Throws the usage error.
  void check_arrival(const std::string& parameter) const;

 private:
  void begin_backward(bool forward_was_synced);
  void refuse_if_wrapped_anew() const;

  mutable std::mutex mutex_;  // over what follows, and delay_all during a backward
  /// Of the backward under way: gone with it, whether it ends or throws.
  std::weak_ptr<void> backward_;
  bool synced_ = false, unsynced_ = false;  // it has come through outputs of such forwards
};

}  // namespace muster::parallel
