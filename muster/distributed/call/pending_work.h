// The c10d::Work of our backends: completed once, by whichever thread gets the operation done.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "muster/diagnose/record/flight_recorder.h"

namespace muster::distributed {

class PendingWork;

/// Who can get a Work done. A waiting thread asks it to, instead of sleeping until another thread
/// did: that saves two wake-ups per operation.
class WorkHelper {
 public:
  virtual ~WorkHelper() = default;
  /// Any thread. May return before `work` is completed; then somebody else is at it. With a
  /// deadline it must not stay much longer than that.
  virtual void help(PendingWork& work,
                    std::optional<std::chrono::steady_clock::time_point> deadline) = 0;
  /// Who keeps operations waiting, "rank 1 did not come", or nothing. Any thread.
  virtual std::string missing() = 0;
};

class PendingWork : public c10d::Work {
 public:
  /// `outputs` are result() and the value of the future.
  PendingWork(int rank,
              c10d::OpType op,
              uint64_t sequence,
              std::vector<at::Tensor> outputs,
              std::weak_ptr<WorkHelper> helper = {});

  /// Exactly one of the two, once. Callbacks of the future run inside: the caller holds no lock.
  /// What one of them throws is not the caller's, who completes the works of other ranks, too: it
  /// comes out of `wait`, as far as that ends later.
  void complete();
  /// Either, on a thread that may not be the waiter's, and that gives its only reference away: whoever
  /// waits goes on when this thread holds neither the work nor its tensors any more, so that what memory
  /// the waiter has then does not hang on which of the two is faster. (A callback that itself waits for
  /// the waiter keeps it for 10 s.)
  static void end_for_another(c10::intrusive_ptr<PendingWork> work,
                              const std::exception_ptr& error = {});
  void fail(const std::exception_ptr& error);
  void fail(const std::string& text);  ///< an environment error

  /// Operation `id` of `recorder` is complete when this is, to the moment, and before any waiter
  /// goes on. A failure is left to the caller. At most once.
  void record_end(std::shared_ptr<diagnose::FlightRecorder> recorder, uint64_t id);

  /// Rethrows the operation's error. Throws an environment error if it is not done in time; the
  /// operation goes on.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  std::vector<at::Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  uint64_t getSequencenumber() const override { return sequence_; }
  int sourceRank() const override { return source_; }
  void set_source(int rank) { source_ = rank; }

 private:
  const uint64_t sequence_;
  int source_ = -1;
  std::vector<at::Tensor> outputs_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::weak_ptr<WorkHelper> helper_;
  void run_callbacks(const std::function<void()>& complete);
  void await_release() const;

  std::exception_ptr callback_error_;  // under mutex_, as the next two
  std::shared_ptr<diagnose::FlightRecorder> recorder_;
  uint64_t record_ = 0;
  // Of end_for_another(), set before the end.
  std::weak_ptr<const void> held_;
  std::thread::id completer_;
};

using PendingWorkPtr = c10::intrusive_ptr<PendingWork>;

}  // namespace muster::distributed
