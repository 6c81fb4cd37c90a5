#include "muster/tensor/device/lost_device.h"

#include <exception>

#include <c10/core/impl/VirtualGuardImpl.h>

namespace muster::tensor {

bool is_lost(c10::Device device) noexcept {
  // A fake device waits for its stream when it is asked, and is never lost.
  if (!device.is_cuda() && !device.is_hip()) return false;
  try {
    const c10::impl::VirtualGuardImpl guard(device.type());
    guard.queryStream(guard.getStream(device));
    return false;
  } catch (const std::exception&) {
    return true;
  }
}

void release_unless_lost(c10::Device device, std::vector<at::Tensor>& tensors) noexcept {
  if (!tensors.empty() && is_lost(device)) {
    for (at::Tensor& tensor : tensors)
      if (tensor.defined()) static_cast<void>(tensor.unsafeReleaseTensorImpl());
  }
  tensors.clear();
}

}  // namespace muster::tensor
