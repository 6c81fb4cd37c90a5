// A CommHook as c10d::Reducer wants it. See Note [Communication hooks].
#pragma once

#include <deque>
#include <memory>
#include <utility>

#include "muster/parallel/hook/comm_hook.h"

namespace muster::parallel {

/// The hook of one DistributedDataParallel and what it has started. Shared by the Reducer, which
/// owns its adapter, and by GradientSync, which outlives Reducers.
class HookRun {
 public:
  explicit HookRun(std::shared_ptr<CommHook> hook) : hook_(std::move(hook)) {}

  CommHook& hook() { return *hook_; }

  c10::intrusive_ptr<c10::ivalue::Future> start(c10d::GradBucket& bucket);
  /// The averaged gradient of the oldest bucket that was started and not finished.
  at::Tensor averaged_gradient(const c10::IValue& arrived);
  /// For a rank without a step of its own (join): waits for all that was started and drops it.
  void drain();

 private:
  std::shared_ptr<CommHook> hook_;
  std::deque<BucketReduction> started_;
};

/// Each Reducer takes one.
std::unique_ptr<c10d::CommHookInterface> adapter_of(std::shared_ptr<HookRun> run);

}  // namespace muster::parallel
