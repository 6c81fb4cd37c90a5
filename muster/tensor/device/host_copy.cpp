#include "muster/tensor/device/host_copy.h"

#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace muster::tensor {

HostCopy::HostCopy(const at::Tensor& there) : here_(there.detach()) {
  if (there.is_cpu()) return;
  const c10::Device device = there.device();
  here_ = at::empty(there.sizes(), at::TensorOptions(there.scalar_type()).pinned_memory(true));
  here_.copy_(there.detach(), /*non_blocking=*/true);
  arrived_.emplace(device.type())
      .record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

const at::Tensor& HostCopy::wait() {
  if (arrived_) arrived_->synchronize();
  arrived_.reset();
  return here_;
}

}  // namespace muster::tensor
