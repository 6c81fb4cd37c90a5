#include "muster/tensor/device/host_copy.h"

#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "muster/tensor/device/lost_device.h"

namespace muster::tensor {

HostCopy::HostCopy(const at::Tensor& there) : here_(there.detach()), from_(there.device()) {
  if (there.is_cpu()) return;
  const c10::Device device = there.device();
  here_ = at::empty(there.sizes(), at::TensorOptions(there.scalar_type()).pinned_memory(true));
  here_.copy_(there.detach(), /*non_blocking=*/true);
  arrived_.emplace(device.type())
      .record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

HostCopy::~HostCopy() {
  if (!here_.defined() || from_.is_cpu()) return;
  std::vector<at::Tensor> held{std::move(here_)};
  release_unless_lost(from_, held);
}

HostCopy& HostCopy::operator=(HostCopy&& other) noexcept {
  std::swap(here_, other.here_);
  std::swap(from_, other.from_);
  std::swap(arrived_, other.arrived_);
  return *this;
}

const at::Tensor& HostCopy::wait() {
  if (arrived_) arrived_->synchronize();
  arrived_.reset();
  return here_;
}

}  // namespace muster::tensor
