#include "muster/distributed/call/staged_backend.h"

#include <utility>

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tensor/device/streams.h"

namespace muster::distributed {
namespace {

using c10d::OpType;
using StagedTensors = std::vector<at::Tensor>;

StagedTensors to_host(const StagedTensors& tensors) {
  StagedTensors host;
  for (const at::Tensor& tensor : tensors)
    host.push_back(tensor.resolve_conj().resolve_neg().contiguous().cpu());
  return host;
}

StagedTensors room_on_host(const StagedTensors& tensors) {
  StagedTensors host;
  for (const at::Tensor& tensor : tensors)
    host.push_back(at::empty(tensor.sizes(), tensor.options().device(at::kCPU)));
  return host;
}

void copy_back(const StagedTensors& host, const StagedTensors& tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) at::Tensor(tensors[i]).copy_(host[i]);
}

template <class Options>
Options staged_options(const Contribution& part) {
  Options options;
  if (part.timeout.count() > 0) options.timeout = part.timeout;
  if constexpr (requires { options.asyncOp; }) options.asyncOp = false;
  if constexpr (requires { options.rootRank; }) options.rootRank = part.root;
  if constexpr (requires { options.reduceOp; }) options.reduceOp = part.reduce_op;
  return options;
}

/// The call that `part` came from, of the inner backend; its tensors are on the host.
c10::intrusive_ptr<c10d::Work> call(c10d::Backend& inner, Contribution& part) {
  const bool is_root = inner.getRank() == part.root;
  std::vector<StagedTensors> lists;
  switch (part.op) {
    case OpType::BROADCAST:
      return inner.broadcast(part.inputs, staged_options<c10d::BroadcastOptions>(part));
    case OpType::ALLREDUCE:
      return inner.allreduce(part.inputs, staged_options<c10d::AllreduceOptions>(part));
    case OpType::ALLREDUCE_COALESCED:
      return inner.allreduce_coalesced(part.inputs,
                                       staged_options<c10d::AllreduceCoalescedOptions>(part));
    case OpType::REDUCE:
      return inner.reduce(part.inputs, staged_options<c10d::ReduceOptions>(part));
    case OpType::ALLGATHER:
      lists.push_back(part.outputs);
      return inner.allgather(lists, part.inputs, staged_options<c10d::AllgatherOptions>(part));
    case OpType::_ALLGATHER_BASE:
      return inner._allgather_base(
          part.outputs[0], part.inputs[0], staged_options<c10d::AllgatherOptions>(part));
    case OpType::GATHER:
      if (is_root) lists.push_back(part.outputs);
      return inner.gather(lists, part.inputs, staged_options<c10d::GatherOptions>(part));
    case OpType::SCATTER:
      if (is_root) lists.push_back(part.inputs);
      return inner.scatter(part.outputs, lists, staged_options<c10d::ScatterOptions>(part));
    case OpType::REDUCE_SCATTER:
      lists.push_back(part.inputs);
      return inner.reduce_scatter(
          part.outputs, lists, staged_options<c10d::ReduceScatterOptions>(part));
    case OpType::_REDUCE_SCATTER_BASE:
      return inner._reduce_scatter_base(
          part.outputs[0], part.inputs[0], staged_options<c10d::ReduceScatterOptions>(part));
    case OpType::ALLTOALL:
      return inner.alltoall(part.outputs, part.inputs, staged_options<c10d::AllToAllOptions>(part));
    case OpType::ALLTOALL_BASE:
      return inner.alltoall_base(part.outputs[0],
                                 part.inputs[0],
                                 part.output_splits,
                                 part.input_splits,
                                 staged_options<c10d::AllToAllOptions>(part));
    default:
      return inner.barrier(staged_options<c10d::BarrierOptions>(part));
  }
}

/// From the device to the host, through `inner`, and back.
void run_staged(c10d::Backend& inner, const Contribution& part) {
  const c10::NoGradGuard no_grad;
  Contribution host = part;
  const bool in_place = part.outputs.empty();
  host.inputs = to_host(part.inputs);
  host.outputs = room_on_host(part.outputs);
  if (const auto work = call(inner, host)) work->wait();
  // Of a reduction only the root has the result, and what the others have is theirs.
  if (part.op == OpType::REDUCE && inner.getRank() != part.root) return;
  copy_back(in_place ? host.inputs : host.outputs, in_place ? part.inputs : part.outputs);
}

/// A message that is copied to its device by whoever waits for it.
class StagedReceipt final : public c10d::Work {
 public:
  StagedReceipt(int rank, c10::intrusive_ptr<c10d::Work> inner, at::Tensor host, at::Tensor to)
      : c10d::Work(rank, OpType::RECV),
        inner_(std::move(inner)),
        host_(std::move(host)),
        to_(std::move(to)) {}

  bool isCompleted() override { return inner_->isCompleted(); }
  int sourceRank() const override { return inner_->sourceRank(); }
  std::vector<at::Tensor> result() override { return {to_}; }
  bool wait(std::chrono::milliseconds timeout) override {
    const bool done = inner_->wait(timeout);
    const c10::NoGradGuard no_grad;
    if (host_.defined()) to_.copy_(host_);
    host_ = at::Tensor();
    return done;
  }

 private:
  c10::intrusive_ptr<c10d::Work> inner_;
  at::Tensor host_, to_;
};

}  // namespace

StagedBackend::StagedBackend(c10::intrusive_ptr<c10d::Backend> inner,
                             std::chrono::milliseconds timeout)
    : PostingBackend(inner->getBackendName(), inner->getRank(), inner->getSize(), timeout),
      inner_(std::move(inner)),
      queue_(std::make_shared<OpQueue>([] { return std::string(); })) {}

void StagedBackend::give_up(const std::string& reason) {
  if (auto* const own = dynamic_cast<PostingBackend*>(inner_.get())) return own->give_up(reason);
  inner_->abort();
}

void StagedBackend::abort() { inner_->abort(); }
void StagedBackend::shutdown() { inner_->shutdown(); }

void StagedBackend::setTimeout(std::chrono::milliseconds timeout) {
  PostingBackend::setTimeout(timeout);
  inner_->setTimeout(timeout);
}

StagedBackend::WorkPtr StagedBackend::post_send(const Message& message) {
  Message host = message;
  host.tensor = to_host({message.tensor})[0];
  return send_over(*inner_, host);
}

StagedBackend::WorkPtr StagedBackend::post_receive(const Message& message) {
  Message host = message;
  host.tensor = room_on_host({message.tensor})[0];
  return c10::make_intrusive<StagedReceipt>(
      getRank(), receive_over(*inner_, host), host.tensor, message.tensor);
}

StagedBackend::WorkPtr StagedBackend::post(uint64_t sequence, Contribution part) {
  auto work = c10::make_intrusive<PendingWork>(
      getRank(), part.op, sequence, part.results(), std::weak_ptr<WorkHelper>(queue_));
  const bool now = !part.async;
  std::vector<at::Tensor> all = part.inputs;
  all.insert(all.end(), part.outputs.begin(), part.outputs.end());
  const auto mark = std::make_shared<tensor::StreamMark>(
      tensor::StreamMark::of_current(tensor::stream_devices(all)));
  queue_->submit(
      work,
      [inner = inner_, part = std::move(part), mark] {
        mark->wait_on_current();
        run_staged(*inner, part);
      },
      now);
  return work;
}

}  // namespace muster::distributed
