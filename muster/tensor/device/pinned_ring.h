// Copies of host memory to a device that the host does not wait for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

namespace muster::tensor {

// Note [Pinned ring]
// A copy from pageable memory to a GPU keeps the host until the device has taken the last byte, and
// the device cannot compute meanwhile. From pinned memory the copy is queued, and the host goes on.
// Pinned memory is dear to make, so there are a few slots, each as large as the largest tensor that
// went through it, used in turn. A slot is written again only after the event behind its last copy:
// the host runs ahead of the device by as many copies as there are slots, and then waits.

/// The way of one replica's batches to its device. One thread.
class PinnedRing {
 public:
  /// Tensors below it go as they are: CUDA itself copies them aside and returns.
  static constexpr int64_t kSmallBytes = 64 << 10;

  struct Parts {
    /// Page-locked memory // [bytes] uint8
    std::function<at::Tensor(int64_t bytes)> allocate;
    /// Queues a copy to the device on the calling thread's current stream.
    std::function<at::Tensor(const at::Tensor& pinned)> send;
  };

  /// For a device of this process's accelerator; memory of LibTorch's own pinned allocator.
  explicit PinnedRing(at::Device device);
  PinnedRing(at::Device device, Parts parts, size_t slots);
  ~PinnedRing();
  PinnedRing(PinnedRing&&) = default;

  /// `host` on the device. What is small, pinned already, not on the host, or needs a gradient goes
  /// straight. Waits while all slots are on their way.
  at::Tensor copy(const at::Tensor& host);

 private:
  struct Slot {
    at::Tensor bytes;
    std::optional<c10::Event> sent;  // behind the copy that reads it
  };

  at::Device device_;
  Parts parts_;
  std::vector<Slot> slots_;
  size_t next_ = 0;
};

}  // namespace muster::tensor
