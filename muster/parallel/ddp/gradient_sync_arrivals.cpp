// GradientSync: gradients that come when they should not. See Note [Which backward is averaged].
#include "muster/base/error.h"
#include "muster/parallel/ddp/backward_guard.h"
#include "muster/parallel/ddp/direct_gradients.h"
#include "muster/parallel/ddp/gradient_sync.h"
#include "muster/parallel/ddp/hook_adapter.h"
#include "muster/parallel/ddp/reducer_shim.h"
#include "muster/parallel/module/accumulator_hooks.h"
#include "muster/parallel/module/desync_check.h"
#include "muster/parallel/module/parameter_identity.h"

namespace muster::parallel {

/// A node runs its hooks in the order in which they were added: these are the first.
void GradientSync::expect_arrivals() {
  arrival_.assign(parameters_.size(), Arrival::kAwaited);
  arrivals_ = std::make_unique<AccumulatorHooks>();
  for (size_t i = 0; i < parameters_.size(); ++i)
    arrivals_->add(parameters_[i].second, [this, i](const at::Tensor&) { arrived(i); });
}

void GradientSync::arrived(size_t parameter) {
  if (!reducer_) return;
  const std::string& name = parameters_[parameter].first;
  guard_->check_arrival(name);
  if (options_.static_graph || !guard_->sync || !guard_->expects()) return;
  if (arrival_[parameter] == Arrival::kAwaited) {
    arrival_[parameter] = Arrival::kArrived;
    return;
  }
  const bool left_out = arrival_[parameter] == Arrival::kLeftOut;
  throw usage_error({.refused = "gradient of parameter " + name,
                     .rule = left_out ? "forward's results do not reach it (find_unused_parameters)"
                                      : "it arrives once between two forwards",
                     .value = left_out ? "one that came from elsewhere" : "a second one",
                     .hint = "a graph that is walked again, or from inside a backward (reentrant "
                             "checkpointing), needs static_graph"});
}

/// Under no_sync nobody waits for gradients, even where a synchronised forward comes before it
/// whose backward comes after it.
void GradientSync::set_sync(bool on) {
  if (guard_->sync == on) return;
  guard_->sync = on;
  if (!reducer_) return;
  if (!on) {
    paused_ = reducer_->expects();
    reducer_->expect(false);
  } else if (paused_) {
    reducer_->expect(true);
    paused_ = false;
  }
  if (direct_) direct_->pause(!on);
}

bool GradientSync::sync() const { return guard_->sync; }

}  // namespace muster::parallel
