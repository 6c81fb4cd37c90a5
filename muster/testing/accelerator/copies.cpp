#include "muster/testing/accelerator/copies.h"

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/LegacyTypeDispatch.h>

#include "muster/testing/accelerator/kernel_call.h"
#include "muster/testing/accelerator/machine.h"

namespace muster::testing {
namespace {

constexpr const char* kCopy = "aten::copy_";
using Queued = Machine::Queued;

/// Between two devices the copy runs on the first one's stream; the other's waits, before and
/// after.
void join_streams(const at::Tensor& waiting, const at::Tensor& other) {
  Machine& machine = Machine::get();
  machine.stream_waits(current_stream(waiting.device().index()),
                       machine.mark(current_stream(other.device().index())));
}

/// All bytes of pinned memory in a row, or undefined if the tensor has gaps. As bytes: copies of
/// bool would make 1 of what is neither 0 nor 1.
at::Tensor flat_pinned(const at::Tensor& host) {
  if (!host.is_cpu() || !host.is_non_overlapping_and_dense() || !host.is_pinned()) return {};
  return host.as_strided({host.numel()}, {1}).view(at::kByte);
}

void copy_in_place(const at::Tensor& from, const at::Tensor& to) {
  KernelCall call(kCopy);
  at::Tensor target = call.on_cpu(to);
  target.copy_(call.on_cpu(from));
}

void leave_under_way(const Queued& queued, const at::Tensor& pinned, bool to_host) {
  CopyUnderWay copy{.moment = queued.moment, .to_host = to_host, .pinned = pinned};
  if (to_host) {
    copy.arriving = pinned.clone();
    std::memset(pinned.mutable_data_ptr(), 0xFF, pinned.nbytes());
  }
  copy.shown = pinned.clone();
  Machine::get().under_way(std::move(copy));
}

}  // namespace

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  Machine& machine = Machine::get();
  const c10::DeviceIndex index = (from.is_privateuseone() ? from : to).device().index();
  machine.announce(kCopy, index);
  const at::AutoDispatchBelowADInplaceOrView below;
  if (!machine.watched()) {
    copy_in_place(from, to);
    return to;
  }
  const bool two_devices =
      from.is_privateuseone() && to.is_privateuseone() && from.device() != to.device();
  if (two_devices) join_streams(from, to);
  const Queued queued = machine.queue(kCopy, index, {{from, false}, {to, true}});
  const at::Tensor& host = from.is_cpu() ? from : to;
  const at::Tensor pinned = flat_pinned(host);
  if (pinned.defined()) machine.settle(queued, pinned, to.is_cpu());
  copy_in_place(from, to);
  if (two_devices) join_streams(to, from);
  if (pinned.defined() && non_blocking)
    leave_under_way(queued, pinned, to.is_cpu());
  else if (host.is_cpu() && (!non_blocking || to.is_cpu()))
    machine.host_waits(queued);
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  to.resize_(from.sizes());
  return copy_from(from, to, false);
}

}  // namespace muster::testing
