#include "muster/parallel/replicas/replica_threads.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <ATen/ThreadLocalState.h>
#include <ATen/autocast_mode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>
#include <pthread.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tensor/intraop_threads.h"

namespace muster::parallel {
namespace {

/// The exception in hand, behind one of ours that names the replica. Inside a handler only.
std::exception_ptr with_replica(int replica, c10::Device device) {
  ErrorKind kind = ErrorKind::kEnvironment;
  ErrorText text;
  try {
    throw;
  } catch (const Error& ours) {
    kind = ours.kind();
    text = ours.text();
  } catch (const c10::Error& torch) {
    text.refused = torch.what_without_backtrace();
  } catch (const std::exception& other) {
    text.refused = other.what();
  } catch (...) {
    text.refused = "an exception of unknown type";
  }
  text.refused = concat("replica ", replica, " (", device, "): ", text.refused);
  try {
    std::throw_with_nested(Error(kind, text));
  } catch (...) {
    return std::current_exception();
  }
}

std::string words_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  }
}

/// The replica's device and a stream of its own while a task runs.
class OnDevice {
 public:
  OnDevice(c10::Device device, std::optional<c10::Stream>& stream) {
    if (device.is_cpu()) return;
    if (!stream)
      stream = c10::impl::getDeviceGuardImpl(device.type())->getStreamFromGlobalPool(device);
    guard_.emplace(*stream);
  }

 private:
  std::optional<c10::StreamGuard> guard_;
};

}  // namespace

/// What one run() hands to the threads.
struct ReplicaThreads::Turn {
  const Task& task;
  const Failed& failed;
  const at::ThreadLocalState& caller;
  const tensor::StreamMark& ready;
};

ReplicaThreads::ReplicaThreads(std::vector<c10::Device> devices, int intra_op_threads)
    : devices_(std::move(devices)), done_(devices_.size()) {
  running_ = devices_.size();
  for (size_t i = 0; i < devices_.size(); ++i)
    threads_.emplace_back(
        [this, i, intra_op_threads] { main(static_cast<int>(i), intra_op_threads); });
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return running_ == 0; });
}

ReplicaThreads::~ReplicaThreads() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ReplicaThreads::refuse_own_threads() const {
  const auto here = std::this_thread::get_id();
  for (const std::thread& thread : threads_) {
    if (thread.get_id() != here) continue;
    throw usage_error({.refused = "a call of DataParallel from inside a replica",
                       .rule = "a loss or module works on its own replica",
                       .hint = "call the module that was handed in"});
  }
}

void ReplicaThreads::run(const Task& task, const Failed& failed) {
  refuse_own_threads();
  const std::lock_guard turns(turns_);
  const at::ThreadLocalState caller;
  const tensor::StreamMark ready = tensor::StreamMark::of_current(devices_);
  const Turn turn{task, failed, caller, ready};
  std::unique_lock lock(mutex_);
  first_error_ = nullptr;
  turn_ = &turn;
  ++turn_number_;
  running_ = devices_.size();
  wake_.notify_all();
  ended_.wait(lock, [&] { return running_ == 0; });
  turn_ = nullptr;
  for (tensor::StreamMark& mark : done_) {
    mark.wait_on_current();
    mark = {};
  }
  if (first_error_) std::rethrow_exception(std::exchange(first_error_, nullptr));
}

void ReplicaThreads::main(int replica, int intra_op_threads) {
  ::pthread_setname_np(::pthread_self(), concat("replica ", replica).c_str());
  tensor::set_own_intraop_threads(intra_op_threads);
  std::unique_lock lock(mutex_);
  std::optional<c10::Stream> stream;
  uint64_t played = 0;
  for (;;) {
    if (--running_ == 0) ended_.notify_one();
    wake_.wait(lock, [&] { return closing_ || turn_number_ != played; });
    if (turn_number_ == played) return;
    played = turn_number_;
    const Turn& turn = *turn_;
    lock.unlock();
    play(replica, turn, stream);
    lock.lock();
  }
}

void ReplicaThreads::work(int replica, const Turn& turn, std::optional<c10::Stream>& stream) {
  const c10::Device device = devices_[static_cast<size_t>(replica)];
  const at::ThreadLocalStateGuard as_caller(turn.caller);
  const OnDevice on_device(device, stream);
  turn.ready.wait_on_current();
  std::exception_ptr error;
  try {
    turn.task(replica);
  } catch (...) {
    error = std::current_exception();
  }
  // Casts of weights are kept until the caller's autocast ends, which this thread does not see; the
  // optimizer changes the weights meanwhile.
  if (at::autocast::is_autocast_enabled(device.type())) at::autocast::clear_cache();
  done_[static_cast<size_t>(replica)] = tensor::StreamMark::of_current({device});
  if (error) std::rethrow_exception(error);
}

void ReplicaThreads::play(int replica, const Turn& turn, std::optional<c10::Stream>& stream) {
  try {
    work(replica, turn, stream);
  } catch (...) {
    const std::exception_ptr error = with_replica(replica, devices_[static_cast<size_t>(replica)]);
    {
      // Recorded before the others are released, so that their errors come second.
      const std::lock_guard lock(mutex_);
      if (!first_error_) first_error_ = error;
    }
    turn.failed(replica, words_of(error));
  }
}

}  // namespace muster::parallel
