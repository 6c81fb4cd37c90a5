// Numbers of a device on their way to the host.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

namespace muster::tensor {

/// A copy that nobody waits for until it is read. One thread.
class HostCopy {
 public:
  /// Queues the copy behind what is on the calling thread's current stream; what is on the CPU is taken
  /// as it is, and may not be written to any more.
  explicit HostCopy(const at::Tensor& there);
  /// See Note [Lost devices].
  ~HostCopy();
  HostCopy(HostCopy&& other) noexcept = default;
  HostCopy& operator=(HostCopy&& other) noexcept;

  /// Waits for the copy. // as `there`, on the CPU
  const at::Tensor& wait();

 private:
  at::Tensor here_;
  c10::Device from_;
  std::optional<c10::Event> arrived_;  // until it is waited for
};

}  // namespace muster::tensor
