#include "muster/tensor/device/streams.h"

#include <algorithm>

#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace muster::tensor {
namespace {

c10::Stream current_stream(c10::Device device) {
  return c10::impl::getDeviceGuardImpl(device.type())->getStream(device);
}

}  // namespace

std::vector<c10::Device> stream_devices(const std::vector<at::Tensor>& tensors) {
  std::vector<c10::Device> devices;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined() || tensor.is_cpu()) continue;
    if (std::find(devices.begin(), devices.end(), tensor.device()) == devices.end())
      devices.push_back(tensor.device());
  }
  return devices;
}

StreamMark StreamMark::of_current(const std::vector<c10::Device>& devices) {
  StreamMark mark;
  std::vector<c10::Device> seen;
  for (const c10::Device device : devices) {
    if (device.is_cpu() || std::find(seen.begin(), seen.end(), device) != seen.end()) continue;
    seen.push_back(device);
    mark.events_.emplace_back(device.type()).record(current_stream(device));
  }
  return mark;
}

void StreamMark::wait_on_current() const {
  for (const c10::Event& waiter : events_) {
    const c10::Stream stream = current_stream(waiter.device());
    for (const c10::Event& event : events_) event.block(stream);
  }
}

}  // namespace muster::tensor
