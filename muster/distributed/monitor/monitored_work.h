// The handle of an operation that a monitor follows.
#pragma once

#include <list>
#include <memory>

#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "muster/distributed/monitor/monitor_core.h"

namespace muster::distributed {

/// Stands for the backend's Work, and ends with it or with the monitor's verdict, whichever is first.
class MonitoredWork : public c10d::Work {
 public:
  /// Call open() next.
  MonitoredWork(std::shared_ptr<Monitor> monitor,
                c10::intrusive_ptr<c10d::Work> inner,
                const diagnose::OpRecord& record,
                c10d::OpType type,
                std::chrono::milliseconds timeout,
                int rank);

  /// The call has failed: finds out why, and throws that. `inner` may be null.
  [[noreturn]] void fail(std::exception_ptr error);

  /// Tells the monitor of it; takes the completion from the backend's future, if the backend has
  /// threads. `self` is this.
  static void open(const MonitoredWorkPtr& self);

  const diagnose::OpRecord& record() const { return record_; }
  bool is_awaited() const { return awaited_.load(std::memory_order_relaxed) > 0; }
  /// Ends by its future; else only by wait().
  bool follows() const { return follows_; }
  /// 0: the group's.
  std::chrono::milliseconds timeout() const { return timeout_; }
  /// Whether the backend is through with it.
  bool inner_is_done() { return inner_->isCompleted(); }
  void abort_inner();

  /// Ends it: well, or with `error`. The first call counts.
  void complete(std::exception_ptr error);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  int sourceRank() const override { return inner_->sourceRank(); }
  std::vector<at::Tensor> result() override { return inner_->result(); }
  void synchronize() override { inner_->synchronize(); }
  bool wait(std::chrono::milliseconds timeout) override;
  void abort() override { inner_->abort(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  float getDuration() const override { return inner_->getDuration(); }
  uint64_t getSequencenumber() const override { return record_.sequence; }

 private:
  friend class Monitor;
  void find_future();
  c10::IValue inner_value() const;
  static void listen(const MonitoredWorkPtr& self);
  bool wait_for_settling(std::chrono::milliseconds timeout);
  void wait_for_inner(std::chrono::milliseconds timeout);

  std::shared_ptr<Monitor> monitor_;
  c10::intrusive_ptr<c10d::Work> inner_;
  const diagnose::OpRecord record_;
  const std::chrono::milliseconds timeout_;
  c10::intrusive_ptr<c10::ivalue::Future> inner_future_, future_;
  bool follows_ = false;
  bool inner_records_ = false;  // writes its end into the recorder when it is there
  std::atomic<int> awaited_{0};
  std::list<MonitoredWorkPtr>::iterator place_;  // in Monitor::open_, under its mutex
  bool listed_ = false;
};

}  // namespace muster::distributed
