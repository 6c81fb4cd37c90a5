#include "muster/parallel/threads/device_threads.h"

#include <algorithm>
#include <condition_variable>
#include <optional>
#include <utility>

#include <ATen/ThreadLocalState.h>
#include <ATen/autocast_mode.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <pthread.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tensor/device/cuda.h"
#include "muster/tensor/device/streams.h"
#include "muster/tensor/intraop_threads.h"
#include "muster/tensor/what_of.h"

namespace muster::parallel {
namespace {

/// The exception in hand, behind one of ours that names the place. Inside a handler only.
std::exception_ptr with_place(const std::string& who, size_t place, c10::Device device) {
  try {
    tensor::throw_behind(concat(who, " ", place, " (", device, ")"));
  } catch (...) {
    return std::current_exception();
  }
}

/// The place's device and a stream of its own while a task runs.
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

void require_device(c10::Device device) {
  if (device.is_cpu()) return;
  std::string why;
  if (device.is_cuda()) why = tensor::load_cuda();
  if (why.empty() && !c10::impl::hasDeviceGuardImpl(device.type()))
    why = "this LibTorch does not know such devices";
  if (why.empty() && !device.has_index()) why = "it has no number";
  if (why.empty() && device.index() >= c10::impl::getDeviceGuardImpl(device.type())->deviceCount())
    why = "there are not so many";
  if (why.empty()) return;
  throw usage_error({.refused = concat("device ", device),
                     .rule = why,
                     .hint = "for several on the CPU: at::kCPU, as often as wanted"});
}

/// What one run() hands to the threads: its own copies, for those that are left behind.
struct DeviceThreads::Turn {
  Task task;
  Failed failed;
  at::ThreadLocalState caller;
  tensor::StreamMark ready;
};

/// What the threads have in common, for as long as one of them lives.
struct DeviceThreads::Shared {
  Shared(std::vector<c10::Device> their_devices, std::string their_name)
      : devices(std::move(their_devices)),
        who(std::move(their_name)),
        running(devices.size()),
        at_rest(devices.size(), false),
        done(devices.size()) {}

  void main(size_t place, int intra_op_threads);
  void play(size_t place, const Turn& turn, std::optional<c10::Stream>& stream);
  void work(size_t place, const Turn& turn, std::optional<c10::Stream>& stream);

  const std::vector<c10::Device> devices;
  const std::string who;
  std::mutex mutex;  // of all that follows
  std::condition_variable wake, ended;
  std::shared_ptr<const Turn> turn;
  uint64_t turn_number = 0;
  size_t running;
  std::vector<bool> at_rest;
  bool closing = false;
  std::exception_ptr first_error;
  std::vector<tensor::StreamMark> done;
};

DeviceThreads::DeviceThreads(std::vector<c10::Device> devices,
                             int intra_op_threads,
                             std::string who)
    : shared_(std::make_shared<Shared>(std::move(devices), std::move(who))) {
  for (size_t i = 0; i < shared_->devices.size(); ++i)
    threads_.emplace_back(
        [shared = shared_, i, intra_op_threads] { shared->main(i, intra_op_threads); });
  std::unique_lock lock(shared_->mutex);
  shared_->ended.wait(lock, [&] { return shared_->running == 0; });
}

DeviceThreads::~DeviceThreads() {
  std::vector<bool> at_rest;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->closing = true;
    at_rest = shared_->at_rest;
  }
  shared_->wake.notify_all();
  for (size_t i = 0; i < threads_.size(); ++i)
    at_rest[i] ? threads_[i].join() : threads_[i].detach();
}

void DeviceThreads::refuse_own_threads() const {
  const auto here = std::this_thread::get_id();
  for (const std::thread& thread : threads_) {
    if (thread.get_id() != here) continue;
    throw usage_error({.refused = concat("a call from inside a ", shared_->who),
                       .rule = "what runs there works on its own part",
                       .hint = "use the module that was handed in"});
  }
}

bool DeviceThreads::all_at_rest() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->running == 0;
}

void DeviceThreads::await_those_left_behind(std::unique_lock<std::mutex>& lock,
                                            const Overseer& overseer) const {
  Shared& shared = *shared_;
  const auto all_rest = [&] { return shared.running == 0; };
  if (all_rest() || shared.ended.wait_for(lock, overseer.every, all_rest)) return;
  size_t place = 0;
  while (shared.at_rest[place]) ++place;
  throw environment_error(
      {.refused = concat(shared.who, " ", place, " (", shared.devices[place], ") is not free"),
       .rule = "what an earlier call left behind there ends before the next one begins"});
}

void DeviceThreads::run(const Task& task, const Failed& failed, const Overseer& overseer) {
  refuse_own_threads();
  const std::lock_guard turns(turns_);
  Shared& shared = *shared_;
  auto turn = std::make_shared<const Turn>(
      Turn{task, failed, {}, tensor::StreamMark::of_current(shared.devices)});
  std::unique_lock lock(shared.mutex);
  await_those_left_behind(lock, overseer);
  shared.first_error = nullptr;
  shared.turn = std::move(turn);
  ++shared.turn_number;
  shared.running = shared.devices.size();
  shared.at_rest.assign(shared.devices.size(), false);
  shared.wake.notify_all();
  const auto all_ended = [&] { return shared.running == 0; };
  bool given_up = false;
  while (overseer.look && !shared.ended.wait_for(lock, overseer.every, all_ended)) {
    if (given_up) break;
    lock.unlock();
    const std::exception_ptr error = overseer.look();
    lock.lock();
    if (error == nullptr) continue;
    given_up = true;
    // Recorded before the others are released, whose errors are because of it.
    if (!shared.first_error) shared.first_error = error;
    lock.unlock();
    failed(-1, tensor::what_of(error));
    lock.lock();
  }
  if (!given_up) shared.ended.wait(lock, all_ended);
  if (!given_up) shared.turn = nullptr;  // who was left behind may not have taken it yet
  for (size_t i = 0; i < shared.done.size(); ++i) {
    if (!shared.at_rest[i]) continue;
    const tensor::StreamMark mark = std::exchange(shared.done[i], {});
    try {
      mark.wait_on_current();
    } catch (...) {
      if (!shared.first_error) shared.first_error = std::current_exception();
    }
  }
  if (shared.first_error) std::rethrow_exception(std::exchange(shared.first_error, nullptr));
}

void DeviceThreads::Shared::main(size_t place, int intra_op_threads) {
  ::pthread_setname_np(::pthread_self(), concat(who, " ", place).c_str());
  tensor::set_own_intraop_threads(intra_op_threads);
  std::unique_lock lock(mutex);
  std::optional<c10::Stream> stream;
  uint64_t played = 0;
  for (;;) {
    at_rest[place] = true;
    if (--running == 0) ended.notify_one();
    wake.wait(lock, [&] { return closing || turn_number != played; });
    if (turn_number == played) return;
    played = turn_number;
    std::shared_ptr<const Turn> mine = turn;
    lock.unlock();
    play(place, *mine, stream);
    mine = nullptr;
    lock.lock();
  }
}

void DeviceThreads::Shared::work(size_t place,
                                 const Turn& turn,
                                 std::optional<c10::Stream>& stream) {
  const c10::Device device = devices[place];
  const at::ThreadLocalStateGuard as_caller(turn.caller);
  const OnDevice on_device(device, stream);
  turn.ready.wait_on_current();
  std::exception_ptr error;
  try {
    turn.task(static_cast<int>(place));
  } catch (...) {
    error = std::current_exception();
  }
  // Casts of weights are kept until the caller's autocast ends, which this thread does not see; the
  // optimizer changes the weights meanwhile.
  if (at::autocast::is_autocast_enabled(device.type())) at::autocast::clear_cache();
  try {
    tensor::StreamMark mark = tensor::StreamMark::of_current({device});
    const std::lock_guard lock(mutex);
    done[place] = std::move(mark);
  } catch (...) {  // a device that has failed fails again; the first error is the one to tell
    if (!error) error = std::current_exception();
  }
  if (error) std::rethrow_exception(error);
}

void DeviceThreads::Shared::play(size_t place,
                                 const Turn& turn,
                                 std::optional<c10::Stream>& stream) {
  try {
    work(place, turn, stream);
  } catch (...) {
    const std::exception_ptr error = with_place(who, place, devices[place]);
    {
      // Recorded before the others are released, so that their errors come second.
      const std::lock_guard lock(mutex);
      if (!first_error) first_error = error;
    }
    turn.failed(static_cast<int>(place), tensor::what_of(error));
  }
}

}  // namespace muster::parallel
