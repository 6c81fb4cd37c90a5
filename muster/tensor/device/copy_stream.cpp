#include "muster/tensor/device/copy_stream.h"

#include <utility>

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace muster::tensor {
namespace {

c10::impl::VirtualGuardImpl guard_of(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type());
}

}  // namespace

CopyStream::CopyStream(c10::Device device)
    : device_(device.has_index() ? device : guard_of(device).getDevice()),
      stream_(guard_of(device_).getStreamFromGlobalPool(device_, /*isHighPriority=*/false)) {}

CopyStream::Copies CopyStream::begin(const std::vector<at::Tensor>& host) {
  const c10::StreamGuard here(stream_);
  Copies copies;
  for (const at::Tensor& tensor : host)
    copies.tensors.push_back(tensor.defined() ? tensor.to(device_, /*non_blocking=*/true) : tensor);
  copies.done.emplace(device_.type()).record(stream_);
  return copies;
}

std::vector<at::Tensor> CopyStream::arrive(Copies copies) const {
  const c10::Stream reader = guard_of(device_).getStream(device_);
  if (copies.done) copies.done->block(reader);
  for (const at::Tensor& tensor : copies.tensors) {
    if (tensor.defined() && tensor.device() == device_) tensor.record_stream(reader);
  }
  return std::move(copies.tensors);
}

}  // namespace muster::tensor
