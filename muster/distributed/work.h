// A call of a group that goes on while its caller does other things.
#pragma once

#include <functional>
#include <memory>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace muster::distributed {

/// What ProcessGroup's …_async return. Calls of one group are made in the order in which they were
/// asked for, whatever is waited for first. Until wait() has returned, the tensors of the call
/// belong to it: they must not be written, nor those read that it writes. Dropped without a wait,
/// the call is made all the same, and what it failed with is lost. Used by one thread at a time;
/// copies are the same call.
///
///     Work sum = group.all_reduce_async(gradient);
///     compute();
///     sum.wait();
class Work {
 public:
  /// Of nothing: over, without a result.
  Work() = default;
  /// `epilogue` is called once, when `work` is over and somebody waits: it may leave the result in
  /// `result`. Made by ProcessGroup.
  Work(c10::intrusive_ptr<c10d::Work> work,
       at::Tensor result,
       std::function<void(at::Tensor& result)> epilogue = {});

  /// Whether wait() would not wait. Also where it would throw.
  bool is_completed() const;

  /// Of a receive, after wait(): the rank that sent the message. -1 of other calls.
  int source() const;

  /// Until the result is there, on a device as far as the current stream: what is queued there
  /// afterwards sees it. Returns it: the tensor that was given where the call works in place;
  /// undefined where there is none (a barrier, a gather on other ranks than the root). Throws what
  /// the call failed with, each time.
  at::Tensor wait() const;

 private:
  struct Call;
  std::shared_ptr<Call> call_;
};

}  // namespace muster::distributed
