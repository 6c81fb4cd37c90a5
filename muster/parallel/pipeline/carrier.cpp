#include "muster/parallel/pipeline/carrier.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include "muster/base/error.h"

namespace muster::parallel {
namespace {

/// The allocator of the tensor's memory, which is of another thread's stream, hears that the
/// calling thread's is at it, too.
void record_use(const at::Tensor& tensor) {
  if (tensor.device().is_cpu()) return;
  at::Tensor(tensor).record_stream(
      c10::impl::VirtualGuardImpl(tensor.device().type()).getStream(tensor.device()));
}

}  // namespace

Handed on_device(Handed handed, c10::Device device) {
  const Tensors given = handed.tensors;
  for (size_t i = 0; i < given.size(); ++i) {
    at::Tensor& tensor = handed.tensors[i];
    if (!tensor.defined()) continue;
    if (const size_t same = first_same(given, i); same < i) {
      tensor = handed.tensors[same];
      continue;
    }
    record_use(tensor);
    // What comes to the host is read there at once.
    if (tensor.device() != device) tensor = tensor.to(device, /*non_blocking=*/!device.is_cpu());
  }
  return handed;
}

void ThreadCarrier::send(const pipeline::Action& action, Handed handed) {
  tensor::StreamMark ready = tensor::StreamMark::of_current(tensor::stream_devices(handed.tensors));
  {
    const std::lock_guard lock(mutex_);
    sent_[key_of(action)] = {std::move(handed), std::move(ready)};
  }
  arrived_.notify_all();
}

void ThreadCarrier::await_sent(const Key& key, std::unique_lock<std::mutex>& lock) {
  arrived_.wait(lock, [&] { return !closed_.empty() || sent_.contains(key); });
  require_open();
}

void ThreadCarrier::await(const pipeline::Action& action) {
  std::unique_lock lock(mutex_);
  await_sent(key_of(pipeline::partner_of(action)), lock);
}

Handed ThreadCarrier::receive(const pipeline::Action& action, c10::Device device) {
  const Key key = key_of(pipeline::partner_of(action));
  Sent sent;
  {
    std::unique_lock lock(mutex_);
    await_sent(key, lock);
    sent = std::move(sent_.extract(key).mapped());
  }
  sent.ready.wait_on_current();
  return on_device(std::move(sent.handed), device);
}

void ThreadCarrier::close(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_.empty()) closed_ = why.empty() ? "it has failed" : why;
  }
  arrived_.notify_all();
}

void ThreadCarrier::check() {
  const std::lock_guard lock(mutex_);
  require_open();
}

void ThreadCarrier::require_open() const {
  if (closed_.empty()) return;
  throw environment_error({.refused = "the step was given up", .rule = closed_});
}

}  // namespace muster::parallel
