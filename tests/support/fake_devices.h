// Devices that do nothing but write down what they are told: for tests of order between streams.
#pragma once

#include <array>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "muster/base/text.h"

namespace muster::test {

/// What the fake device was told, in order: "record 7 on 1" (stream 7 of device 1).
class Journal {
 public:
  void add(const std::string& line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(line);
  }
  std::vector<std::string> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(lines_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};
inline Journal journal;

/// Four devices with streams and events that only write to the journal. An event's time is the
/// number of milliseconds that `now_ms` shows when it is recorded.
struct FakeDevices final : c10::impl::DeviceGuardImplInterface {
  FakeDevices() = default;
  c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    current = device.index();
    return before;
  }
  c10::Device getDevice() const override { return {type(), current}; }
  void setDevice(c10::Device device) const override { current = device.index(); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { current = device.index(); }
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(
        c10::Stream::UNSAFE, device, streams.at(static_cast<size_t>(device.index())));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, 70 + device.index());
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = getStream(stream.device());
    streams.at(static_cast<size_t>(stream.device_index())) = stream.id();
    return before;
  }
  c10::DeviceIndex deviceCount() const noexcept override { return 4; }
  void record(void** event,
              const c10::Stream& stream,
              const c10::DeviceIndex,
              const c10::EventFlag) const override {
    if (*event == nullptr) *event = new double;
    *static_cast<double*>(*event) = now_ms;
    journal.add(concat("record ", stream.id(), " on ", int(stream.device_index())));
  }
  void block(void*, const c10::Stream& stream) const override {
    journal.add(concat("wait ", stream.id(), " on ", int(stream.device_index())));
  }
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override { journal.add("host waits"); }
  double elapsedTime(void* from, void* to, const c10::DeviceIndex) const override {
    return *static_cast<double*>(to) - *static_cast<double*>(from);
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<double*>(event);
  }

  static inline thread_local c10::DeviceIndex current = 0;
  static inline thread_local std::array<c10::StreamId, 4> streams = {0, 0, 0, 0};
  static inline double now_ms = 0;
};

/// Of the process, from before main.
inline const c10::impl::DeviceGuardImplRegistrar kFakeDevices(c10::DeviceType::PrivateUse1,
                                                              new FakeDevices);

inline c10::Device fake(c10::DeviceIndex index) { return {c10::DeviceType::PrivateUse1, index}; }

}  // namespace muster::test
