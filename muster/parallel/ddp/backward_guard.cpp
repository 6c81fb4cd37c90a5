#include "muster/parallel/ddp/backward_guard.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "muster/base/error.h"

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
  armed = armed || sync;
  running = false;
  for (at::Tensor* output : outputs) {
    if (!output->defined() || !output->requires_grad() || output->is_leaf()) continue;
    output->register_hook([self = shared_from_this(), synced = sync](const at::Tensor&) {
      self->begin_backward(synced);
    });
  }
}

void BackwardGuard::begin_backward(bool forward_was_synced) {
  if (reducer == nullptr) return;
  if (forward_was_synced ? !sync : sync && !armed) refuse_half_covered(forward_was_synced);
  if (running) return;
  running = true;
  auto& engine = torch::autograd::Engine::get_default_engine();
  // As PyTorch's _DDPSink: in the first step of a static graph nobody knows yet how often each
  // parameter is used.
  if (delay_all && sync) {
    delay_all = false;
    engine.queue_callback([self = shared_from_this()] {
      if (self->reducer != nullptr) self->reducer->delay_all_reduce();
    });
  }
  engine.queue_callback([self = shared_from_this()] { self->running = self->armed = false; });
}

}  // namespace muster::parallel
