#include "muster/distributed/monitor/monitored_work.h"

#include <utility>

#include "muster/base/text.h"
#include "muster/distributed/call/pending_work.h"

namespace muster::distributed {

MonitoredWork::MonitoredWork(std::shared_ptr<Monitor> monitor,
                             c10::intrusive_ptr<c10d::Work> inner,
                             const diagnose::OpRecord& record,
                             c10d::OpType type,
                             std::chrono::milliseconds timeout,
                             int rank)
    : c10d::Work(rank, type),
      monitor_(std::move(monitor)),
      inner_(std::move(inner)),
      record_(record),
      timeout_(timeout) {}

void MonitoredWork::find_future() {
  if (diagnose::is_point_to_point(record_.kind)) return;  // gloo's have no future
  try {
    inner_future_ = inner_->getFuture();
  } catch (const std::exception&) {
    return;
  }
  // One with devices completes at launch, with events: it is passed on as it is.
  if (inner_future_ && !inner_future_->devices().empty()) inner_future_ = nullptr;
}

/// What the backend's future holds. A work is done a moment before its future is: whoever waited
/// for the work may be here first.
c10::IValue MonitoredWork::inner_value() const {
  inner_future_->wait();
  return inner_future_->value();
}

// The future's callback holds this object, and this object holds the future: the circle opens when
// the backend completes the future, as every backend does in the end.
void MonitoredWork::listen(const MonitoredWorkPtr& self) {
  self->inner_future_->addCallback([self](c10::ivalue::Future& future) {
    if (future.hasError())
      self->monitor_->failed(self, future.exception_ptr());
    else
      self->complete(nullptr);
  });
}

// Ours note their end themselves: a callback of their future would cost more.
void MonitoredWork::open(const MonitoredWorkPtr& self) {
  if (auto* ours = dynamic_cast<PendingWork*>(self->inner_.get())) {
    self->inner_records_ = true;
    ours->record_end(self->monitor_->recorder(), self->record_.id);
  }
  if (self->monitor_->traits().has_threads) self->find_future();
  self->follows_ = self->inner_future_ != nullptr;
  self->monitor_->add(self);
  if (self->follows_) listen(self);
}

void MonitoredWork::complete(std::exception_ptr error) {
  // Before a waiter goes on.
  if (error || !inner_records_) monitor_->recorder()->complete(record_.id, error != nullptr);
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    const std::lock_guard lock(mutex_);
    if (completed_) return;
    completed_ = true;
    exception_ = error;
    future = future_;
  }
  cv_.notify_all();
  if (!error) monitor_->succeeded(record_);
  monitor_->remove(*this);
  if (!future) return;
  try {
    error ? future->setError(error) : future->markCompleted(inner_value());
  } catch (...) {
    // Of a callback of the user's, on a thread that is the monitor's or the backend's: whoever
    // waits for the work gets it.
    const std::lock_guard lock(mutex_);
    if (!exception_) exception_ = std::current_exception();
  }
}

bool MonitoredWork::isCompleted() {
  {
    const std::lock_guard lock(mutex_);
    if (completed_) return true;
  }
  if (follows_ || !inner_->isCompleted()) return false;
  if (inner_->exception()) {
    monitor_->failed(MonitoredWorkPtr::reclaim_copy(this), inner_->exception());
    return false;
  }
  complete(nullptr);
  return true;
}

bool MonitoredWork::isSuccess() const {
  const std::lock_guard lock(mutex_);
  return completed_ && !exception_;
}

std::exception_ptr MonitoredWork::exception() const {
  const std::lock_guard lock(mutex_);
  return exception_;
}

void MonitoredWork::fail(std::exception_ptr error) {
  monitor_->failed(MonitoredWorkPtr::reclaim_copy(this), std::move(error));
  wait_for_settling(kNoTimeout);
  std::rethrow_exception(exception());
}

void MonitoredWork::abort_inner() {
  if (!inner_) return;
  try {
    inner_->abort();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): most works cannot be aborted
  }
}

bool MonitoredWork::wait(std::chrono::milliseconds timeout) {
  bool done = false;
  {
    const std::lock_guard lock(mutex_);
    done = completed_;
  }
  if (!done) {
    ++awaited_;
    monitor_->recorder()->begin_wait(record_.id);
    const auto after = [this] {
      monitor_->recorder()->end_wait(record_.id);
      --awaited_;
    };
    try {
      if (follows_)
        wait_for_settling(timeout);
      else
        wait_for_inner(timeout);
    } catch (...) {
      after();
      throw;
    }
    after();
  }
  const std::exception_ptr error = exception();
  if (error) std::rethrow_exception(error);
  return follows_ || done ? inner_->wait() : true;  // streams, where the backend has any
}

bool MonitoredWork::wait_for_settling(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  if (timeout == kNoTimeout) {
    cv_.wait(lock, [&] { return completed_; });
    return true;
  }
  if (cv_.wait_for(lock, timeout, [&] { return completed_; })) return true;
  throw environment_error({.refused = monitor_->title(record_),
                           .rule = concat("not done after ", timeout.count(), " ms")});
}

void MonitoredWork::wait_for_inner(std::chrono::milliseconds timeout) {
  try {
    inner_->wait(timeout);
    complete(nullptr);
  } catch (...) {
    const std::exception_ptr error = std::current_exception();
    // The caller's own patience is over, not the operation.
    if (timeout != kNoTimeout && !inner_->isCompleted()) throw;
    monitor_->failed(MonitoredWorkPtr::reclaim_copy(this), error);
    wait_for_settling(kNoTimeout);
  }
}

c10::intrusive_ptr<c10::ivalue::Future> MonitoredWork::getFuture() {
  if (!inner_future_) find_future();
  if (!inner_future_) return inner_->getFuture();
  std::unique_lock lock(mutex_);
  if (future_) return future_;
  future_ = inner_future_->createInstance(inner_future_->elementType());
  const auto future = future_;
  const bool done = completed_;
  const std::exception_ptr error = exception_;
  lock.unlock();
  if (done && error)
    future->setError(error);
  else if (done)
    future->markCompleted(inner_value());
  else if (!follows_)
    listen(MonitoredWorkPtr::reclaim_copy(this));
  return future;
}

}  // namespace muster::distributed
