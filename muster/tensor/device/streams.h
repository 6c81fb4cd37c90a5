// Order between the streams of accelerators when work crosses threads.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

namespace muster::tensor {

// Note [Streams of replicas]
// Each replica's thread has a stream of its own. What the caller has queued (the batch, the last
// optimizer step) is marked by an event on each of its current streams, and a replica's stream
// waits for these events before it starts; when the replicas are done, the caller's streams wait
// for theirs. So everything runs as if it had been queued on the caller's streams, memory that one
// thread frees is not handed out again too early, and no host thread waits for a device. CPU
// devices have no streams; for them all of this is nothing. Everything goes through c10's generic
// device guards, so no CUDA is linked, and tests put a fake device in.

// Note [Collectives between devices]
// A collective of thread ranks is done by the thread of the rank that comes last, which queues all
// of it on its own current streams. Each rank marks its streams when it posts, the last one's
// streams wait for all marks, and the Work's future, made for the devices of its tensors, lets
// whoever waits for it wait for what was queued. No host thread waits. Sums are made on rank 0's
// device, whose links carry each bucket once per other rank and way.

/// The accelerators that `tensors` are on, each once: what a mark, or a future of them, is made
/// for.
std::vector<c10::Device> stream_devices(const std::vector<at::Tensor>& tensors);

/// What was queued on some streams up to a moment.
class StreamMark {
 public:
  StreamMark() = default;

  /// Marks the calling thread's current streams of `devices`. CPU devices may be among them.
  static StreamMark of_current(const std::vector<c10::Device>& devices);

  /// The calling thread's current streams of the marked devices wait for all marked work.
  void wait_on_current() const;

 private:
  std::vector<c10::Event> events_;
};

}  // namespace muster::tensor
