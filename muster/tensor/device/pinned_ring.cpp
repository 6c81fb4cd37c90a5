#include "muster/tensor/device/pinned_ring.h"

#include <utility>

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "muster/tensor/device/lost_device.h"

namespace muster::tensor {
namespace {

/// Images and labels of two steps.
constexpr size_t kSlots = 4;

PinnedRing::Parts parts_of(at::Device device) {
  return {
      .allocate =
          [](int64_t bytes) {
            return at::empty({bytes}, at::TensorOptions(at::kByte).pinned_memory(true));
          },
      .send =
          [device](const at::Tensor& pinned) { return pinned.to(device, /*non_blocking=*/true); }};
}

}  // namespace

PinnedRing::PinnedRing(at::Device device) : PinnedRing(device, parts_of(device), kSlots) {}

PinnedRing::PinnedRing(at::Device device, Parts parts, size_t slots)
    : device_(device), parts_(std::move(parts)), slots_(slots) {}

PinnedRing::~PinnedRing() {
  std::vector<at::Tensor> held;
  for (Slot& slot : slots_)
    if (slot.bytes.defined()) held.push_back(std::move(slot.bytes));
  release_unless_lost(device_, held);
}

at::Tensor PinnedRing::copy(const at::Tensor& host) {
  const auto bytes = static_cast<int64_t>(host.nbytes());
  const bool needs_gradient = c10::GradMode::is_enabled() && host.requires_grad();
  if (!host.device().is_cpu() || bytes < kSmallBytes || needs_gradient || host.is_pinned())
    return parts_.send(host);
  Slot& slot = slots_[next_];
  next_ = (next_ + 1) % slots_.size();
  if (slot.sent) slot.sent->synchronize();
  if (!slot.bytes.defined() || slot.bytes.numel() < bytes) slot.bytes = parts_.allocate(bytes);
  const c10::NoGradGuard no_grad;
  const at::Tensor pinned =
      slot.bytes.narrow(0, 0, bytes).view(host.scalar_type()).view(host.sizes());
  pinned.copy_(host);
  at::Tensor there = parts_.send(pinned);
  if (!slot.sent) slot.sent.emplace(device_.type());
  slot.sent->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  return there;
}

}  // namespace muster::tensor
