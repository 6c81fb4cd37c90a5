#include "muster/distributed/call/posting_backend.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/call/sparse_allreduce.h"

namespace muster::distributed {
namespace {

using c10d::OpType;
using WorkPtr = PostingBackend::WorkPtr;

}  // namespace

PostingBackend::PostingBackend(std::string name,
                               int rank,
                               int world_size,
                               std::chrono::milliseconds timeout)
    : c10d::Backend(rank, world_size),
      options_(c10::make_intrusive<Options>(std::move(name), timeout)) {}

WorkPtr PostingBackend::check_and_post(Contribution part) {
  check_contribution(part, getRank(), getSize());
  return post(sequence_++, std::move(part));
}

WorkPtr PostingBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  Contribution part = contribution_of(OpType::BROADCAST, options);
  part.inputs = tensors;
  return check_and_post(std::move(part));
}

WorkPtr PostingBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  if (is_sparse(tensors)) return sum_sparse(*this, tensors, options, sequence_);
  Contribution part = contribution_of(OpType::ALLREDUCE, options);
  part.inputs = tensors;
  return check_and_post(std::move(part));
}

WorkPtr PostingBackend::allreduce_coalesced(Tensors& tensors,
                                            const c10d::AllreduceCoalescedOptions& options) {
  Contribution part = contribution_of(OpType::ALLREDUCE_COALESCED, options);
  part.inputs = tensors;
  return check_and_post(std::move(part));
}

WorkPtr PostingBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  Contribution part = contribution_of(OpType::REDUCE, options);
  part.inputs = tensors;
  return check_and_post(std::move(part));
}

WorkPtr PostingBackend::allgather(std::vector<Tensors>& outputs,
                                  Tensors& inputs,
                                  const c10d::AllgatherOptions& options) {
  Contribution part = contribution_of(OpType::ALLGATHER, options);
  part.inputs = inputs;
  if (!outputs.empty()) part.outputs = outputs[0];
  return check_and_post(std::move(part));
}

WorkPtr PostingBackend::_allgather_base(at::Tensor& output,
                                        at::Tensor& input,
                                        const c10d::AllgatherOptions& options) {
  Contribution part = contribution_of(OpType::_ALLGATHER_BASE, options);
  part.inputs = {input};
  part.outputs = {output};
  return check_and_post(std::move(part));
}

WorkPtr PostingBackend::gather(std::vector<Tensors>& outputs,
                               Tensors& inputs,
                               const c10d::GatherOptions& options) {
  Contribution part = contribution_of(OpType::GATHER, options);
  part.inputs = inputs;
  if (!outputs.empty()) part.outputs = outputs[0];
  return check_and_post(std::move(part));
}

WorkPtr PostingBackend::scatter(Tensors& outputs,
                                std::vector<Tensors>& inputs,
                                const c10d::ScatterOptions& options) {
  Contribution part = contribution_of(OpType::SCATTER, options);
  if (!inputs.empty()) part.inputs = inputs[0];
  part.outputs = outputs;
  return check_and_post(std::move(part));
}

WorkPtr PostingBackend::reduce_scatter(Tensors& outputs,
                                       std::vector<Tensors>& inputs,
                                       const c10d::ReduceScatterOptions& options) {
  Contribution part = contribution_of(OpType::REDUCE_SCATTER, options);
  if (!inputs.empty()) part.inputs = inputs[0];
  part.outputs = outputs;
  return check_and_post(std::move(part));
}

WorkPtr PostingBackend::_reduce_scatter_base(at::Tensor& output,
                                             at::Tensor& input,
                                             const c10d::ReduceScatterOptions& options) {
  Contribution part = contribution_of(OpType::_REDUCE_SCATTER_BASE, options);
  part.inputs = {input};
  part.outputs = {output};
  return check_and_post(std::move(part));
}

WorkPtr PostingBackend::alltoall(Tensors& outputs,
                                 Tensors& inputs,
                                 const c10d::AllToAllOptions& options) {
  Contribution part = contribution_of(OpType::ALLTOALL, options);
  part.inputs = inputs;
  part.outputs = outputs;
  return check_and_post(std::move(part));
}

WorkPtr PostingBackend::alltoall_base(at::Tensor& output,
                                      at::Tensor& input,
                                      std::vector<int64_t>& output_splits,
                                      std::vector<int64_t>& input_splits,
                                      const c10d::AllToAllOptions& options) {
  Contribution part = contribution_of(OpType::ALLTOALL_BASE, options);
  part.inputs = {input};
  part.outputs = {output};
  part.output_splits = output_splits;
  part.input_splits = input_splits;
  return check_and_post(std::move(part));
}

WorkPtr PostingBackend::barrier(const c10d::BarrierOptions& options) {
  return check_and_post(contribution_of(OpType::BARRIER, options));
}

WorkPtr PostingBackend::post_send(const Message&) {
  throw usage_error({.refused = "send over " + getBackendName(), .rule = "it has no messages"});
}

WorkPtr PostingBackend::post_receive(const Message&) {
  throw usage_error({.refused = "recv over " + getBackendName(), .rule = "it has no messages"});
}

WorkPtr PostingBackend::send(Tensors& tensors, int to, int tag) {
  check_message("send", tensors, to, tag, getSize());
  return post_send({tensors[0], to, tag, options_->timeout});
}

WorkPtr PostingBackend::recv(Tensors& tensors, int from, int tag) {
  check_message("recv", tensors, from, tag, getSize());
  return post_receive({tensors[0], from, tag, options_->timeout});
}

WorkPtr PostingBackend::recvAnysource(Tensors& tensors, int tag) {
  check_message("recv_any", tensors, getRank(), tag, getSize());
  return post_receive({tensors[0], kAnyRank, tag, options_->timeout});
}

WorkPtr PostingBackend::send_message(const Message& message) {
  check_message("send", {message.tensor}, message.peer, message.tag, getSize());
  Message posted = message;
  if (posted.timeout.count() <= 0) posted.timeout = options_->timeout;
  return post_send(posted);
}

WorkPtr PostingBackend::receive_message(const Message& message) {
  const bool any = message.peer == kAnyRank;
  check_message("recv", {message.tensor}, any ? getRank() : message.peer, message.tag, getSize());
  Message posted = message;
  if (posted.timeout.count() <= 0) posted.timeout = options_->timeout;
  return post_receive(posted);
}

}  // namespace muster::distributed
