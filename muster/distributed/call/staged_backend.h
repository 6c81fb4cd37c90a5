// Tensors of a device over a backend that moves those of the CPU.
#pragma once

#include <memory>

#include "muster/distributed/call/op_queue.h"
#include "muster/distributed/call/posting_backend.h"

namespace muster::distributed {

// Note [Staged tensors]
// Not every kind of device has a backend of its own, and NCCL is not for ranks that share a device.
// There a collective goes by host memory: what it reads is copied to the host, the inner backend
// does it, and what it writes is copied back. The caller's streams are marked when it posts; the
// thread that does the operation waits for them on its own, and the work's future, which is made
// for the devices of its tensors, lets whoever waits for it wait for the copies back. Operations
// are done in their order, by a thread of their own (Note [Who works]), so gradients travel while
// backward computes on; the host waits for the device within that thread alone.

/// As c10d's ProcessGroupGloo takes CUDA tensors, for any backend and any kind of device.
class StagedBackend final : public PostingBackend {
 public:
  /// Only this uses `inner` from now on.
  StagedBackend(c10::intrusive_ptr<c10d::Backend> inner, std::chrono::milliseconds timeout);
  ~StagedBackend() override { queue_->close("the group was destroyed"); }

  void give_up(const std::string& reason) override;
  void abort() override;
  void shutdown() override;
  void setTimeout(std::chrono::milliseconds timeout) override;

  void end_in_order() override { distributed::end_in_order(*inner_); }

 protected:
  WorkPtr post(uint64_t sequence, Contribution part) override;
  WorkPtr post_send(const Message& message) override;
  WorkPtr post_receive(const Message& message) override;

 private:
  c10::intrusive_ptr<c10d::Backend> inner_;
  std::shared_ptr<OpQueue> queue_;
};

}  // namespace muster::distributed
