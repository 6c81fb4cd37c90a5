#include "muster/testing/accelerator/device_guard.h"

#include <atomic>
#include <chrono>
#include <utility>

#include "muster/testing/accelerator/machine.h"

namespace muster::testing {
namespace {

constexpr int kStreamsInPool = 32;  // per device, in turn, as with CUDA

struct FakeEvent {
  VectorClock clock;
  uint64_t generation = 0;
  std::chrono::steady_clock::time_point time;
  std::atomic<int> not_yet = 0;
};

std::atomic<bool> autograd_starts = false;

FakeEvent& event_at(void* event) { return *static_cast<FakeEvent*>(event); }

c10::DeviceIndex index_of(c10::Device device) {
  return device.has_index() ? device.index() : current_device();
}

/// One of the next so many queries.
bool too_early(std::atomic<int>& not_yet) {
  int left = not_yet.load();
  while (left > 0) {
    if (not_yet.compare_exchange_weak(left, left - 1)) return true;
  }
  return false;
}

/// Nobody waits for what an accelerator that has ended did.
bool is_of_now(const FakeEvent& event) {
  return event.generation == Machine::get().generation() && Machine::get().device_count() > 0;
}

}  // namespace

c10::DeviceType FakeDeviceGuard::type() const { return kFake; }

c10::Device FakeDeviceGuard::exchangeDevice(c10::Device device) const {
  const c10::Device before = getDevice();
  Machine::get().check(device.index());
  set_current_device(device.index());
  return before;
}

c10::Device FakeDeviceGuard::getDevice() const { return {kFake, current_device()}; }

/// Also for devices that are not there yet: autograd's threads take theirs once and keep it. Who uses
/// a device that is not there is refused then.
void FakeDeviceGuard::setDevice(c10::Device device) const { set_current_device(device.index()); }

void start_device_threads(const std::function<void()>& start) {
  autograd_starts = true;
  start();
  autograd_starts = false;
}

void FakeDeviceGuard::uncheckedSetDevice(c10::Device device) const noexcept {
  if (device.index() >= 0 && device.index() < Machine::get().device_count())
    set_current_device(device.index());
}

c10::DeviceIndex FakeDeviceGuard::deviceCount() const noexcept {
  const int count = autograd_starts ? FakeAccelerator::kMaxDevices : Machine::get().device_count();
  return static_cast<c10::DeviceIndex>(count);
}

c10::Stream FakeDeviceGuard::getStream(c10::Device device) const {
  return current_stream(index_of(device));
}

c10::Stream FakeDeviceGuard::getDefaultStream(c10::Device device) const {
  return c10::Stream(c10::Stream::DEFAULT, c10::Device(kFake, index_of(device)));
}

c10::Stream FakeDeviceGuard::getNewStream(c10::Device device, int /*priority*/) const {
  const c10::DeviceIndex index = index_of(device);
  const unsigned turn = Machine::get().device(index).streams_lent++ % kStreamsInPool;
  return c10::Stream(
      c10::Stream::UNSAFE, c10::Device(kFake, index), static_cast<c10::StreamId>(turn) + 1);
}

c10::Stream FakeDeviceGuard::getStreamFromGlobalPool(c10::Device device, bool) const {
  return getNewStream(device, 0);
}

c10::Stream FakeDeviceGuard::exchangeStream(c10::Stream stream) const {
  const c10::Stream before = current_stream(stream.device_index());
  set_current_stream(stream);
  return before;
}

bool FakeDeviceGuard::queryStream(const c10::Stream& stream) const {
  if (too_early(Machine::get().slow_queries)) return false;
  synchronizeStream(stream);
  return true;
}

void FakeDeviceGuard::synchronizeStream(const c10::Stream& stream) const {
  Machine::get().host_waits(Machine::get().mark(stream));
}

void FakeDeviceGuard::synchronizeDevice(c10::DeviceIndex device) const {
  Machine::get().host_waits_for_device(device);
}

void FakeDeviceGuard::record(void** event,
                             const c10::Stream& stream,
                             c10::DeviceIndex /*device*/,
                             c10::EventFlag /*flag*/) const {
  VectorClock clock = Machine::get().mark(stream);
  if (*event == nullptr) *event = new FakeEvent;
  FakeEvent& recorded = event_at(*event);
  recorded.clock = std::move(clock);
  recorded.generation = Machine::get().generation();
  recorded.time = std::chrono::steady_clock::now();
  recorded.not_yet = Machine::get().slow_queries.load();
}

void FakeDeviceGuard::block(void* event, const c10::Stream& stream) const {
  if (event != nullptr && is_of_now(event_at(event)))
    Machine::get().stream_waits(stream, event_at(event).clock);
}

bool FakeDeviceGuard::queryEvent(void* event) const {
  if (event == nullptr) return true;
  if (too_early(event_at(event).not_yet)) return false;
  synchronizeEvent(event);
  return true;
}

void FakeDeviceGuard::synchronizeEvent(void* event) const {
  if (event == nullptr || !is_of_now(event_at(event))) return;
  event_at(event).not_yet = 0;
  Machine::get().host_waits(event_at(event).clock);
}

void FakeDeviceGuard::destroyEvent(void* event, c10::DeviceIndex /*device*/) const noexcept {
  delete static_cast<FakeEvent*>(event);
}

double FakeDeviceGuard::elapsedTime(void* from, void* to, c10::DeviceIndex /*device*/) const {
  const auto passed = event_at(to).time - event_at(from).time;
  return std::chrono::duration<double, std::milli>(passed).count();
}

void FakeDeviceGuard::recordDataPtrOnStream(const c10::DataPtr& memory,
                                            const c10::Stream& stream) const {
  const DeviceAddress address = find_shown(memory.get());
  if (address.device >= 0) Machine::get().record_stream(address, stream);
}

}  // namespace muster::testing
