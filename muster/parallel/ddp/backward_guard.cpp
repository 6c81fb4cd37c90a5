#include "muster/parallel/ddp/backward_guard.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/ddp/direct_gradients.h"
#include "muster/parallel/ddp/reducer_shim.h"

namespace muster::parallel {
namespace {

[[noreturn]] void refuse_half_covered(bool forward_was_synced) {
  throw usage_error(
      {.refused = forward_was_synced ? "backward under no_sync after a forward outside of it"
                                     : "backward outside of no_sync after a forward under it",
       .rule = "no_sync covers a forward and its backward, or neither: forward decides whether "
               "gradients are averaged",
       .hint = "{ const auto pause = ddp.no_sync(); loss(ddp->forward(x)).backward(); } or "
               "ddp.accumulate(step, steps)"});
}

}  // namespace

void BackwardGuard::arm(const std::vector<at::Tensor*>& outputs) {
  for (at::Tensor* output : outputs) {
    if (!output->defined() || !output->requires_grad() || output->is_leaf()) continue;
    output->register_hook([self = shared_from_this(), synced = sync](const at::Tensor&) {
      self->begin_backward(synced);
    });
  }
}

void BackwardGuard::begin_backward(bool forward_was_synced) {
  if (reducer == nullptr) {
    if (gone && forward_was_synced) refuse_if_wrapped_anew();
    return;
  }
  if (forward_was_synced ? !sync : sync && !expects()) refuse_half_covered(forward_was_synced);
  const std::lock_guard lock(mutex_);
  if (backward_.expired()) {
    synced_ = unsynced_ = false;
    auto& engine = torch::autograd::Engine::get_default_engine();
    // As PyTorch's _DDPSink: in the first step of a static graph nobody knows yet how often each
    // parameter is used.
    if (delay_all && sync) {
      delay_all = false;
      engine.queue_callback([self = shared_from_this()] {
        if (self->reducer != nullptr) self->reducer->delay_all_reduce();
      });
    }
    // Autograd holds the callback as long as the backward, and drops it if that throws.
    const auto alive = std::make_shared<char>();
    backward_ = alive;
    engine.queue_callback([self = shared_from_this(), alive] {
      const std::lock_guard end(self->mutex_);
      self->backward_.reset();
    });
  }
  (forward_was_synced ? synced_ : unsynced_) = true;
}

bool BackwardGuard::expects() const {
  return reducer->expects() || (direct != nullptr && direct->expects());
}

void BackwardGuard::check_arrival(const std::string& parameter) const {
  if (!sync) return;
  bool synced = false, unsynced = false;
  {
    const std::lock_guard lock(mutex_);
    if (backward_.expired()) return;
    synced = synced_, unsynced = unsynced_;
  }
  if (!expects()) {
    if (!synced) return;
    throw usage_error(
        {.refused = "backward: the gradient of parameter " + parameter + " is not averaged",
         .rule = "after a forward, or several, one backward is, and it has been",
         .value = "another one through the outputs of these forwards",
         .hint = "add the losses and call backward once, or put all forwards and backwards but the "
                 "last under no_sync (ddp.accumulate)"});
  }
  if (unsynced && !synced) refuse_half_covered(false);
}

/// With this object's hooks gone, others on the same parameters are those of the next wrapper.
void BackwardGuard::refuse_if_wrapped_anew() const {
  for (const at::Tensor& parameter : parameters) {
    const auto accumulator = torch::autograd::impl::try_get_grad_accumulator(parameter);
    if (!accumulator || accumulator->post_hooks().empty()) continue;
    throw usage_error(
        {.refused = "backward of a forward from before the module was wrapped anew",
         .rule =
             "gradients are averaged by the object whose forward they come from, and it is gone",
         .hint = "call the new object's forward"});
  }
}

}  // namespace muster::parallel
