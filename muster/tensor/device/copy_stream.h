// Copies of host memory to a device, beside what the device computes.
#pragma once

#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

namespace muster::tensor {

// Note [Copies beside computation]
// Copies that are queued where a device computes stand in line behind the step before. So they have
// a stream of their own, and three things keep that right:
//   - The stream that computes waits for the event behind the copies before it reads them.
//   - The new tensors' memory is of the copies' stream, which would hand it out again as soon as
//     they are freed, while the other stream is still at them: record_stream() says who else is.
//   - Pinned memory that a copy reads is freed while the copy is under way. LibTorch's pinned
//     allocator keeps a block until the events behind its copies are over: it is the pool of slots.
// From memory that is not pinned a copy is right, too, but the host waits for it.

/// One replica's way to its device. One thread.
class CopyStream {
 public:
  /// For an accelerator of this process; takes a stream of its pool.
  explicit CopyStream(c10::Device device);

  /// Tensors on their way. They may be read once arrive() has taken them.
  struct Copies {
    std::vector<at::Tensor> tensors;
    std::optional<c10::Event> done;
  };

  /// Queues copies of `host`; undefined tensors stay undefined. Nobody writes to `host` until they are
  /// over; who holds it may let it go at once.
  Copies begin(const std::vector<at::Tensor>& host);

  /// The copies, for the calling thread's current stream of the device: what is queued there from
  /// now on may read them, and they may be freed at any time.
  std::vector<at::Tensor> arrive(Copies copies) const;

  c10::Device device() const { return device_; }
  c10::Stream stream() const { return stream_; }

 private:
  c10::Device device_;
  c10::Stream stream_;
};

}  // namespace muster::tensor
