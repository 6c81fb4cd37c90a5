// Devices, streams and events as c10 asks for them.
#pragma once

#include <functional>

#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace muster::testing {

/// Everything runs when it is called, so events hold no work but knowledge: the clock of their
/// stream.
struct FakeDeviceGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override;

  c10::Device exchangeDevice(c10::Device device) const override;
  c10::Device getDevice() const override;
  void setDevice(c10::Device device) const override;
  void uncheckedSetDevice(c10::Device device) const noexcept override;
  c10::DeviceIndex deviceCount() const noexcept override;

  c10::Stream getStream(c10::Device device) const override;
  c10::Stream getDefaultStream(c10::Device device) const override;
  c10::Stream getNewStream(c10::Device device, int priority) const override;
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool is_high_priority) const override;
  c10::Stream exchangeStream(c10::Stream stream) const override;
  bool queryStream(const c10::Stream& stream) const override;
  void synchronizeStream(const c10::Stream& stream) const override;
  void synchronizeDevice(c10::DeviceIndex device) const override;

  void record(void** event,
              const c10::Stream& stream,
              c10::DeviceIndex device,
              c10::EventFlag flag) const override;
  void block(void* event, const c10::Stream& stream) const override;
  bool queryEvent(void* event) const override;
  void synchronizeEvent(void* event) const override;
  void destroyEvent(void* event, c10::DeviceIndex device) const noexcept override;
  double elapsedTime(void* from, void* to, c10::DeviceIndex device) const override;
  void recordDataPtrOnStream(const c10::DataPtr& memory, const c10::Stream& stream) const override;
};

/// While autograd starts its threads, one per device, there are as many devices as there may ever
/// be.
void start_device_threads(const std::function<void()>& start);

}  // namespace muster::testing
