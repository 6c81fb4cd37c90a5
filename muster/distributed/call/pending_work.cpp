#include "muster/distributed/call/pending_work.h"

#include <algorithm>
#include <utility>

#include <ATen/core/jit_type.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/call/names.h"
#include "muster/distributed/meet/timeout.h"
#include "muster/tensor/device/streams.h"

namespace muster::distributed {

PendingWork::PendingWork(int rank,
                         c10d::OpType op,
                         uint64_t sequence,
                         std::vector<at::Tensor> outputs,
                         std::weak_ptr<WorkHelper> helper)
    : c10d::Work(rank, op),
      sequence_(sequence),
      outputs_(std::move(outputs)),
      future_(c10::make_intrusive<c10::ivalue::Future>(
          c10::ListType::create(c10::TensorType::get()), tensor::stream_devices(outputs_))),
      helper_(std::move(helper)) {}

void PendingWork::record_end(std::shared_ptr<diagnose::FlightRecorder> recorder, uint64_t id) {
  {
    const std::lock_guard lock(mutex_);
    if (!completed_) {
      recorder_ = std::move(recorder);
      record_ = id;
      return;
    }
    if (exception_) return;
  }
  recorder->complete(id);  // it was done when the call returned
}

void PendingWork::complete() {
  {
    // Under the lock: a record_end() that comes now sees either no end or the whole of it.
    const std::lock_guard lock(mutex_);
    if (recorder_) recorder_->complete(record_);
    completed_ = true;
  }
  cv_.notify_all();
  run_callbacks([&] { future_->markCompleted(c10::IValue(outputs_)); });
}

void PendingWork::end_for_another(PendingWorkPtr work, const std::exception_ptr& error) {
  const auto holds = std::make_shared<char>();
  work->held_ = holds;
  work->completer_ = std::this_thread::get_id();
  const PendingWorkPtr last = std::move(work);
  error ? last->fail(error) : last->complete();
}

/// Of what is a few instructions away, unless that thread has lost its core: for seconds, on a machine
/// that others fill.
void PendingWork::await_release() const {
  constexpr std::chrono::seconds kPatience{10};
  constexpr int kYields = 1000;
  if (completer_ == std::this_thread::get_id()) return;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (int looks = 0; !held_.expired(); ++looks) {
    if (looks < kYields) {
      std::this_thread::yield();
    } else {
      if (std::chrono::steady_clock::now() > deadline) return;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
}

void PendingWork::fail(const std::exception_ptr& error) {
  finish(error);
  run_callbacks([&] { future_->setError(error); });
}

void PendingWork::run_callbacks(const std::function<void()>& complete) {
  try {
    complete();
  } catch (...) {
    const std::lock_guard lock(mutex_);
    callback_error_ = std::current_exception();
  }
}

void PendingWork::fail(const std::string& text) {
  fail(std::make_exception_ptr(environment_error({.refused = text})));
}

bool PendingWork::wait(std::chrono::milliseconds timeout) {
  const bool limited = timeout != kNoTimeout && timeout.count() >= 0;
  const auto deadline = std::chrono::steady_clock::now() + std::min(timeout, kLongestWait);
  const auto helper = helper_.lock();
  if (helper && !isCompleted())
    helper->help(*this, limited ? std::optional(deadline) : std::nullopt);
  std::unique_lock lock(mutex_);
  if (!limited) {
    cv_.wait(lock, [&] { return completed_; });
  } else if (!cv_.wait_until(lock, deadline, [&] { return completed_; })) {
    lock.unlock();
    const std::string who = helper ? helper->missing() : "";
    throw environment_error(
        {.refused = concat(operation_name(opType_), " #", sequence_, " of rank ", rank_),
         .rule = concat("not complete after ", timeout.count(), " ms"),
         .value = who});
  }
  if (exception_) std::rethrow_exception(exception_);
  if (callback_error_) std::rethrow_exception(callback_error_);
  lock.unlock();
  if (!future_->devices().empty()) future_->wait();  // this thread's streams wait
  await_release();
  return true;
}

}  // namespace muster::distributed
