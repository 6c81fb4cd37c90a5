// A c10d::Backend whose collectives all are one function: the base of our own backends.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "muster/distributed/call/contribution.h"
#include "muster/distributed/call/messages.h"

namespace muster::distributed {

/// Turns c10d's dozen virtual functions and option structs into `post`, and messages into two more.
/// Used by one rank's thread (and autograd's, one at a time).
class PostingBackend : public c10d::Backend, public Messenger {
 public:
  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  PostingBackend(std::string name, int rank, int world_size, std::chrono::milliseconds timeout);

  const std::string getBackendName() const override { return options_->backend; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  uint64_t getSequenceNumberForGroup() override { return sequence_; }
  void setTimeout(std::chrono::milliseconds timeout) override { options_->timeout = timeout; }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs,
                    Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output,
                          at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  WorkPtr gather(std::vector<Tensors>& outputs,
                 Tensors& inputs,
                 const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs,
                  std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs,
                         std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output,
                               at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall(Tensors& outputs,
                   Tensors& inputs,
                   const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output,
                        at::Tensor& input,
                        std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits,
                        const c10d::AllToAllOptions& options) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  WorkPtr send_message(const Message& message) override;
  WorkPtr receive_message(const Message& message) override;

  /// This rank will take part in nothing any more; peers that wait for it are told why. Any thread.
  virtual void give_up(const std::string& /*reason*/) {}

 protected:
  /// Collective number `sequence` of this rank, checked by check_contribution. Never throws for
  /// what other ranks do: that is the Work's.
  virtual WorkPtr post(uint64_t sequence, Contribution part) = 0;

  /// Checked by check_message, with a timeout. See Note [Messages]. A usage error if not overridden.
  virtual WorkPtr post_send(const Message& message);
  virtual WorkPtr post_receive(const Message& message);

  std::chrono::milliseconds timeout_of(const Contribution& part) const {
    return part.timeout.count() > 0 ? part.timeout : options_->timeout;
  }

  c10::intrusive_ptr<Options> options_;

 private:
  WorkPtr check_and_post(Contribution part);

  std::atomic<uint64_t> sequence_{0};  // callbacks of a future may issue the next operation
};

}  // namespace muster::distributed
