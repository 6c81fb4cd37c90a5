#include "muster/testing/accelerator/machine.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/testing/accelerator/generator.h"

namespace muster::testing {
namespace {

struct ThreadState {
  uint64_t generation = 0;
  c10::DeviceIndex device = 0;
  std::array<c10::StreamId, FakeAccelerator::kMaxDevices> streams{};
};

/// Of the calling thread; that of an older accelerator is forgotten.
ThreadState& thread_state() {
  thread_local ThreadState state;
  const uint64_t generation = Machine::get().generation();
  if (state.generation != generation) state = {.generation = generation};
  return state;
}

}  // namespace

Machine& Machine::get() {
  static auto* const machine = new Machine;  // outlives every tensor
  return *machine;
}

Machine::Machine() {
  for (int i = 0; i < FakeAccelerator::kMaxDevices; ++i)
    devices_[static_cast<size_t>(i)] =
        std::make_unique<FakeDevice>(static_cast<c10::DeviceIndex>(i));
}

void Machine::begin(const FakeAcceleratorOptions& options) {
  const std::lock_guard lock(mutex_);
  order_ = {};
  found_.clear();
  slow_queries = 0;
  races_ = options.races;
  for (int i = 0; i < options.devices; ++i) {
    FakeDevice& device = *devices_[static_cast<size_t>(i)];
    device.memory.begin(options);
    device.generator = make_fake_generator(static_cast<c10::DeviceIndex>(i));
    device.operators = 0;
    device.streams_lent = 0;
  }
  ++generation_;
  count_.store(options.devices, std::memory_order_release);
}

void Machine::end() {
  set_hook({});
  const std::lock_guard lock(mutex_);
  races_ = Races::kIgnore;
  land([](const CopyUnderWay&) { return true; });
  const int count = count_.exchange(0);
  for (int i = 0; i < count; ++i) devices_[static_cast<size_t>(i)]->memory.empty_cache();
}

FakeDevice& Machine::device(int index) {
  const int count = device_count();
  if (index >= 0 && index < count) return *devices_[static_cast<size_t>(index)];
  throw usage_error({.refused = concat("fake:", index),
                     .rule = count == 0
                                 ? "there is no FakeAccelerator now"
                                 : concat("there are ", count, " fake devices, counted from 0"),
                     .hint = count == 0 ? "keep it alive for as long as its devices are used"
                                        : "FakeAcceleratorOptions::devices"});
}

size_t Machine::allocate(c10::DeviceIndex index, size_t bytes) {
  FakeDevice& of = device(index);
  const c10::Stream stream = current_stream(index);
  const std::lock_guard lock(mutex_);
  const size_t number = number_of(stream);
  if (watched()) {
    if (const auto use = of.memory.freed_too_early(number, order_)) {
      found({.kind = FakeRace::Kind::kFreed,
             .first = described(*use),
             .second = {.op = "", .device = index, .stream = stream.id(), .write = true}});
    }
  }
  return of.memory.allocate(bytes, number);
}

void Machine::give_back(const DeviceAddress& address) {
  const std::lock_guard lock(mutex_);
  devices_[static_cast<size_t>(address.device)]->memory.give_back(
      address.offset, order_, watched());
}

void Machine::record_stream(const DeviceAddress& address, const c10::Stream& stream) {
  FakeDevice& of = device(address.device);
  const std::lock_guard lock(mutex_);
  MemoryBlock* const block = of.memory.block_at(address.offset);
  if (block != nullptr) block->recorded.insert(number_of(stream));
}

size_t Machine::number_of(const c10::Stream& stream) {
  return order_.number_of({stream.device_index(), stream.id()});
}

VectorClock Machine::mark(const c10::Stream& stream) {
  check(stream.device_index());
  const std::lock_guard lock(mutex_);
  return order_.mark(number_of(stream));
}

void Machine::stream_waits(const c10::Stream& stream, const VectorClock& mark) {
  check(stream.device_index());
  const std::lock_guard lock(mutex_);
  order_.stream_waits(number_of(stream), mark);
}

void Machine::announce(std::string_view op, c10::DeviceIndex index) {
  ++device(index).operators;
  if (!hooked_.load(std::memory_order_relaxed)) return;
  std::shared_ptr<const OnOperator> hook;
  {
    const std::lock_guard lock(mutex_);
    hook = hook_;
  }
  if (hook) (*hook)(op, {kFake, index});
}

void Machine::set_hook(OnOperator hook) {
  const std::lock_guard lock(mutex_);
  hooked_ = static_cast<bool>(hook);
  hook_ = hook ? std::make_shared<const OnOperator>(std::move(hook)) : nullptr;
}

c10::DeviceIndex current_device() { return thread_state().device; }

void set_current_device(c10::DeviceIndex device) { thread_state().device = device; }

c10::Stream current_stream(c10::DeviceIndex device) {
  const c10::StreamId id = thread_state().streams.at(static_cast<size_t>(device));
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kFake, device), id);
}

void set_current_stream(const c10::Stream& stream) {
  thread_state().streams.at(static_cast<size_t>(stream.device_index())) = stream.id();
}

}  // namespace muster::testing
