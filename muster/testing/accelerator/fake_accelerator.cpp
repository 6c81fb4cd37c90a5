#include "muster/testing/accelerator/fake_accelerator.h"

#include <atomic>
#include <utility>

#include <ATen/Context.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/testing/accelerator/machine.h"
#include "muster/testing/accelerator/registration.h"

namespace muster::testing {
namespace {

std::atomic<bool> there_is_one = false;

size_t checked_bytes(int64_t bytes) {
  if (bytes > 0 && bytes <= FakeAccelerator::kMaxBytes) return static_cast<size_t>(bytes);
  throw usage_error({.refused = "memory of a fake device",
                     .rule = concat("1 byte to ", human_bytes(FakeAccelerator::kMaxBytes)),
                     .value = concat(bytes)});
}

void check_options(const FakeAcceleratorOptions& options) {
  if (options.devices < 1 || options.devices > FakeAccelerator::kMaxDevices) {
    throw usage_error({.refused = "number of fake devices",
                       .rule = concat("1 to ", FakeAccelerator::kMaxDevices),
                       .value = concat(options.devices)});
  }
  checked_bytes(options.bytes_per_device);
}

}  // namespace

FakeAccelerator::FakeAccelerator(const FakeAcceleratorOptions& options) {
  check_options(options);
  if (there_is_one.exchange(true)) {
    throw usage_error({.refused = "a second FakeAccelerator",
                       .rule = "a process has one at a time",
                       .hint = "more devices of one: FakeAcceleratorOptions::devices"});
  }
  try {
    register_fake_devices();
    Machine::get().begin(options);
    at::globalContext().lazyInitDevice(kFake);  // without it no memory counts as pinned
  } catch (...) {
    there_is_one = false;
    throw;
  }
}

FakeAccelerator::~FakeAccelerator() {
  Machine::get().end();
  there_is_one = false;
}

c10::Device FakeAccelerator::device(int index) {
  return {kFake, static_cast<c10::DeviceIndex>(index)};
}

int FakeAccelerator::device_count() const { return Machine::get().device_count(); }

void FakeAccelerator::set_capacity(int device, int64_t bytes) {
  const size_t capacity = checked_bytes(bytes);
  Machine::get().with_memory(device, [&](DeviceMemory& memory) { memory.set_capacity(capacity); });
}

void FakeAccelerator::fail_allocation(int device, int64_t nth, bool all_after) {
  if (nth < 0) {
    throw usage_error({.refused = "failure of an allocation",
                       .rule = "they are counted from 1; 0 takes a failure back",
                       .value = concat(nth)});
  }
  Machine::get().with_memory(device,
                             [&](DeviceMemory& memory) { memory.fail_allocation(nth, all_after); });
}

FakeMemory FakeAccelerator::memory(int device) const {
  return Machine::get().with_memory(device, [](DeviceMemory& memory) {
    const DeviceMemory::Stats& stats = memory.stats();
    return FakeMemory{.live = stats.allocated_bytes[0].current,
                      .peak = stats.allocated_bytes[0].peak,
                      .reserved = stats.reserved_bytes[0].current,
                      .allocations = stats.allocation[0].allocated,
                      .blocks = stats.allocation[0].current,
                      .out_of_memory = stats.num_ooms};
  });
}

void FakeAccelerator::reset_peak(int device) {
  Machine::get().with_memory(device, [](DeviceMemory& memory) { memory.reset_peak(); });
}

void FakeAccelerator::on_operator(OnOperator hook) { Machine::get().set_hook(std::move(hook)); }

int64_t FakeAccelerator::operators(int device) const {
  return Machine::get().device(device).operators;
}

void FakeAccelerator::set_races(Races races) { Machine::get().set_races(races); }

std::vector<FakeRace> FakeAccelerator::take_races() { return Machine::get().take_races(); }

void FakeAccelerator::set_slow_queries(int times) { Machine::get().slow_queries = times; }

}  // namespace muster::testing
