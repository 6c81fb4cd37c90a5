// Processes over TCP by LibTorch's Gloo. The only file that includes ProcessGroupGloo.hpp: the
// wheel ships no gloo headers, and Debian's are from 2022, so gloo types are used opaquely here:
// nothing of gloo's own is constructed or derived by us.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/call/c10d_recorder.h"
#include "muster/distributed/call/contribution.h"
#include "muster/distributed/call/courier.h"
#include "muster/distributed/call/names.h"
#include "muster/distributed/call/ordered_bits.h"
#include "muster/distributed/call/pending_work.h"
#include "muster/distributed/call/sparse_allreduce.h"
#include "muster/distributed/call/without_sigpipe.h"
#include "muster/distributed/meet/backend.h"
#include "muster/distributed/meet/connected.h"
#include "muster/tensor/what_of.h"

namespace muster::distributed {
namespace {

using c10d::OpType;
using Gloo = c10d::ProcessGroupGloo;
using OptionsPtr = c10::intrusive_ptr<Gloo::Options>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<Tensors>;

/// What gloo does not know, by asking it: a group of one. Any thread.
class GlooKnowledge {
 public:
  static GlooKnowledge& of_process() {
    static GlooKnowledge knowledge;
    return knowledge;
  }

  /// Empty, or why such tensors cannot be sent, or, if `reduce` is not null, be combined so.
  std::string refusal(const OptionsPtr& options,
                      at::ScalarType dtype,
                      const c10d::ReduceOp* reduce) {
    if (is_common(dtype, reduce)) return "";
    const std::lock_guard lock(mutex_);
    const int op = reduce != nullptr ? static_cast<int>(reduce->op_) : -1;
    const auto [known, is_new] = refusals_.try_emplace({dtype, op});
    if (is_new) known->second = ask(options, dtype, reduce);
    return known->second;
  }

 private:
  static bool is_common(at::ScalarType dtype, const c10d::ReduceOp* reduce) {
    const bool is_plain = dtype == at::kFloat || dtype == at::kDouble || dtype == at::kLong ||
                          dtype == at::kInt || dtype == at::kByte;
    return is_plain && (reduce == nullptr || reduce->op_ == c10d::ReduceOp::SUM ||
                        reduce->op_ == c10d::ReduceOp::MIN || reduce->op_ == c10d::ReduceOp::MAX);
  }

  static std::string ask(const OptionsPtr& options,
                         at::ScalarType dtype,
                         const c10d::ReduceOp* reduce) {
    try {
      const auto alone =
          c10::make_intrusive<Gloo>(c10::make_intrusive<c10d::HashStore>(), 0, 1, options);
      Tensors tensors{at::zeros({1}, dtype)};
      if (reduce == nullptr) {
        alone->broadcast(tensors)->wait();
      } else {
        c10d::AllreduceOptions how;
        how.reduceOp = *reduce;
        alone->allreduce(tensors, how)->wait();
      }
      return "";
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    } catch (const std::exception& error) {
      return error.what();
    }
  }

  std::mutex mutex_;
  std::map<std::pair<at::ScalarType, int>, std::string> refusals_;
};

/// Refuses at the call, in the words of all backends, what gloo would refuse in its own, or in a
/// thread of its own, when the other ranks already wait: all ranks refuse it, and the group stays
/// whole. And takes minima and maxima as the other backends do, see Note [NaN over gloo]. As c10d's
/// callers know the operations; those of newer names come by these.
class CheckedGloo final : public Gloo, public Messenger {
 public:
  CheckedGloo(const c10::intrusive_ptr<c10d::Store>& store,
              int rank,
              int size,
              const OptionsPtr& options)
      : Gloo(store, rank, size, options),
        made_with_(options),
        courier_(std::make_shared<Courier>(
            rank,
            size,
            [this](const at::Tensor& bytes, int peer, int channel) {
              const WithoutSigpipe guard;
              Tensors one{bytes};
              return Gloo::send(one, peer, channel);
            },
            [this](const at::Tensor& bytes, int peer, int channel) {
              const WithoutSigpipe guard;
              Tensors one{bytes};
              return Gloo::recv(one, peer, channel);
            })),
        timeout_ms_(options->timeout.count()) {}

  ~CheckedGloo() override {
    if (std::uncaught_exceptions() == exceptions_) courier_->end_in_order();
    courier_->close("the group was destroyed");
  }

  void end_in_order() override { courier_->end_in_order(); }
  void abort() override {
    courier_->close("the group was aborted");
    Gloo::abort();
  }
  void setTimeout(std::chrono::milliseconds timeout) override {
    timeout_ms_ = timeout.count();
    Gloo::setTimeout(timeout);
  }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    checked(OpType::BROADCAST, options, tensors);
    return Gloo::broadcast(tensors, options);
  }
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    if (is_sparse(tensors)) {
      check_sparse_allreduce(tensors, options.reduceOp);
      if (options.reduceOp != c10d::ReduceOp::SUM)
        throw usage_error(
            {.refused = "all_reduce avg of sparse tensors over gloo",
             .rule = "gloo sums them",
             .hint = "divide the sum by the number of ranks, or take the backend shm"});
      return Gloo::allreduce(tensors, options);
    }
    const Contribution part = checked(OpType::ALLREDUCE, options, tensors);
    if (!compares(part)) return Gloo::allreduce(tensors, options);
    Tensors bits = bits_of(tensors, part);
    return floats_of(tensors, bits, Gloo::allreduce(bits, options));
  }
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override {
    const Contribution part = checked(OpType::ALLREDUCE_COALESCED, options, tensors);
    if (!compares(part)) return Gloo::allreduce_coalesced(tensors, options);
    Tensors bits = bits_of(tensors, part);
    return floats_of(tensors, bits, Gloo::allreduce_coalesced(bits, options));
  }
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    const Contribution part = checked(OpType::REDUCE, options, tensors);
    if (!compares(part)) return Gloo::reduce(tensors, options);
    Tensors bits = bits_of(tensors, part);
    const bool is_root = getRank() == part.root;
    return floats_of(is_root ? tensors : Tensors(), bits, Gloo::reduce(bits, options));
  }
  WorkPtr allgather(TensorLists& outputs,
                    Tensors& inputs,
                    const c10d::AllgatherOptions& options) override {
    checked(OpType::ALLGATHER, options, inputs, outputs.empty() ? Tensors() : outputs[0]);
    return Gloo::allgather(outputs, inputs, options);
  }
  WorkPtr _allgather_base(at::Tensor& output,
                          at::Tensor& input,
                          const c10d::AllgatherOptions& options) override {
    checked(OpType::_ALLGATHER_BASE, options, {input}, {output});
    return Gloo::_allgather_base(output, input, options);
  }
  WorkPtr gather(TensorLists& outputs,
                 Tensors& inputs,
                 const c10d::GatherOptions& options) override {
    checked(OpType::GATHER, options, inputs, outputs.empty() ? Tensors() : outputs[0]);
    return Gloo::gather(outputs, inputs, options);
  }
  WorkPtr scatter(Tensors& outputs,
                  TensorLists& inputs,
                  const c10d::ScatterOptions& options) override {
    checked(OpType::SCATTER, options, inputs.empty() ? Tensors() : inputs[0], outputs);
    return Gloo::scatter(outputs, inputs, options);
  }
  WorkPtr reduce_scatter(Tensors& outputs,
                         TensorLists& inputs,
                         const c10d::ReduceScatterOptions& options) override {
    const Contribution part =
        checked(OpType::REDUCE_SCATTER, options, inputs.empty() ? Tensors() : inputs[0], outputs);
    if (!compares(part)) return Gloo::reduce_scatter(outputs, inputs, options);
    Tensors rows;
    for (const at::Tensor& bits : bits_of(part.inputs, part)) rows.push_back(bits.view(-1));
    return own_part(part, at::cat(rows));
  }
  WorkPtr _reduce_scatter_base(at::Tensor& output,
                               at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override {
    const Contribution part = checked(OpType::_REDUCE_SCATTER_BASE, options, {input}, {output});
    if (!compares(part)) return Gloo::_reduce_scatter_base(output, input, options);
    return own_part(part, ordered_bits(input, part.reduce_op.op_));
  }
  WorkPtr alltoall(Tensors& outputs,
                   Tensors& inputs,
                   const c10d::AllToAllOptions& options) override {
    checked(OpType::ALLTOALL, options, inputs, outputs);
    return Gloo::alltoall(outputs, inputs, options);
  }
  WorkPtr alltoall_base(at::Tensor& output,
                        at::Tensor& input,
                        std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits,
                        const c10d::AllToAllOptions& options) override {
    Contribution part = contribution_of(OpType::ALLTOALL_BASE, options);
    part.inputs = {input};
    part.outputs = {output};
    part.output_splits = output_splits;
    part.input_splits = input_splits;
    check(part);
    return Gloo::alltoall_base(output, input, output_splits, input_splits, options);
  }
  WorkPtr send(Tensors& tensors, int to, int tag) override {
    check_message("send", tensors, to, tag, getSize());
    return courier_->send(timed({tensors[0], to, tag}));
  }
  WorkPtr recv(Tensors& tensors, int from, int tag) override {
    check_message("recv", tensors, from, tag, getSize());
    return courier_->receive(timed({tensors[0], from, tag}));
  }
  WorkPtr recvAnysource(Tensors& tensors, int tag) override {
    check_message("recv_any", tensors, getRank(), tag, getSize());
    return courier_->receive(timed({tensors[0], kAnyRank, tag}));
  }
  WorkPtr send_message(const Message& message) override {
    check_message("send", {message.tensor}, message.peer, message.tag, getSize());
    return courier_->send(timed(message));
  }
  WorkPtr receive_message(const Message& message) override {
    const bool any = message.peer == kAnyRank;
    check_message("recv", {message.tensor}, any ? getRank() : message.peer, message.tag, getSize());
    return courier_->receive(timed(message));
  }

 private:
  /// Lists of a gather, a scatter or an all-gather.
  static void check_one_shape(const Contribution& part) {
    const at::Tensor& first = part.op == OpType::SCATTER ? part.outputs[0] : part.inputs[0];
    for (const at::Tensor& tensor : part.op == OpType::SCATTER ? part.inputs : part.outputs) {
      if (tensor.sizes() == first.sizes()) continue;
      throw usage_error({.refused = concat(part.describe(), " over gloo"),
                         .rule = "the tensors of a list have one shape",
                         .value = concat(shape_text(first.scalar_type(), first.sizes()),
                                         " and ",
                                         shape_text(tensor.scalar_type(), tensor.sizes()))});
    }
  }

  /// The call, if nothing is wrong with it.
  template <class Options>
  Contribution checked(OpType op,
                       const Options& options,
                       Tensors inputs,
                       Tensors outputs = {}) const {
    Contribution part = contribution_of(op, options);
    part.inputs = std::move(inputs);
    part.outputs = std::move(outputs);
    check(part);
    return part;
  }

  /// What every backend refuses, and what gloo does not know.
  void check(const Contribution& part) const {
    check_contribution(part, getRank(), getSize());
    if (part.op == OpType::ALLGATHER || part.op == OpType::GATHER || part.op == OpType::SCATTER)
      check_one_shape(part);
    const bool takes_one = part.op == OpType::BROADCAST || part.op == OpType::ALLREDUCE;
    if (takes_one && part.inputs.size() > 1) {
      throw usage_error({.refused = concat(part.describe(), " over gloo"),
                         .rule = "one tensor per call",
                         .value = concat(part.inputs.size(), " tensors"),
                         .hint = "call it for each tensor, or take the backend shm"});
    }
    const at::ScalarType dtype =
        (part.inputs.empty() ? part.outputs : part.inputs)[0].scalar_type();
    const c10d::ReduceOp* reduce = reduces(part.op) ? &part.reduce_op : nullptr;
    const std::string why = GlooKnowledge::of_process().refusal(made_with_, dtype, reduce);
    if (why.empty()) return;
    throw usage_error(
        {.refused = concat(operation_name(part.op), " of ", dtype_name(dtype), " over gloo"),
         .rule = why,
         .hint = "convert the tensor, or take the backend shm"});
  }

  static bool compares(const Contribution& part) {
    return compares_floats(part.inputs[0].scalar_type(), part.reduce_op.op_);
  }

  static Tensors bits_of(const Tensors& tensors, const Contribution& part) {
    Tensors bits;
    for (const at::Tensor& tensor : tensors)
      bits.push_back(ordered_bits(tensor, part.reduce_op.op_));
    return bits;
  }

  /// A reduce-scatter, as gloo itself makes it, whose works say nothing of their end: an
  /// all-reduce.
  WorkPtr own_part(const Contribution& part, const at::Tensor& bits) {
    c10d::AllreduceOptions options;
    options.reduceOp = part.reduce_op;
    options.timeout = part.timeout;
    Tensors whole{bits};
    const at::Tensor own = bits.view({getSize(), bits.numel() / getSize()})[getRank()];
    return floats_of(part.outputs, {own}, Gloo::allreduce(whole, options));
  }

  /// `bits` hold the result when `call` is done, and then `tensors` do.
  WorkPtr floats_of(const Tensors& tensors, const Tensors& bits, const WorkPtr& call) {
    auto work =
        c10::make_intrusive<PendingWork>(getRank(), call->retrieveOpType(), compared_++, tensors);
    call->getFuture()->addCallback([work, to = tensors, bits](c10::ivalue::Future& done) mutable {
      std::exception_ptr error;
      try {
        if (done.hasError()) std::rethrow_exception(done.exception_ptr());
        for (size_t i = 0; i < to.size(); ++i) put_from_ordered_bits(to[i], bits[i]);
      } catch (...) {
        error = std::current_exception();
      }
      to.clear();
      PendingWork::end_for_another(std::move(work), error);
    });
    return work;
  }

  Message timed(Message message) const {
    if (message.timeout.count() <= 0) message.timeout = std::chrono::milliseconds(timeout_ms_);
    return message;
  }

  const OptionsPtr made_with_;
  const std::shared_ptr<Courier> courier_;
  std::atomic<int64_t> timeout_ms_;
  const int exceptions_ = std::uncaught_exceptions();  // on their way when the group was made
  std::atomic<uint64_t> compared_{0};                  // gloo's own works have no number
};

c10::intrusive_ptr<c10d::Backend> make_gloo(const BackendRequest& request) {
  const WithoutSigpipe guard;  // for gloo's threads, too, which begin here
  c10::intrusive_ptr<CheckedGloo> gloo;
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  const std::string where =
      interface != nullptr ? concat("interface ", interface, " of ", request.host) : request.host;
  try {
    auto options = Gloo::Options::create(request.timeout);
    // Named explicitly: the default looks the host's own name up, which can take seconds or give an
    // unreachable address.
    options->devices.push_back(interface != nullptr ? Gloo::createDeviceForInterface(interface)
                                                    : Gloo::createDeviceForHostname(request.host));
    begin_connecting(*request.store, request.rank, where);
    gloo =
        c10::make_intrusive<CheckedGloo>(request.store, request.rank, request.world_size, options);
  } catch (const std::exception&) {
    throw connection_error(request, "gloo", where, tensor::what_of(std::current_exception()));
  }
  await_all_connected(*request.store, request.rank, request.world_size);
  return gloo;
}

}  // namespace

extern constinit const BackendEntry gloo_entry{
    .name = "gloo",
    .help = "processes of one or many hosts over TCP; CPU tensors",
    .preference = 10,
    .type = c10d::ProcessGroup::BackendType::GLOO,
    .available = [] { return std::string(); },
    .make = &make_gloo,
    .moves_cpu = true,
    .moves_cuda = false,
    .completes_futures = true};

}  // namespace muster::distributed
