#include "muster/distributed/monitor/decorated_backend.h"

#include "muster/distributed/monitor/decorated_pass.h"

namespace muster::distributed {
namespace {

using c10d::OpType;

template <class Options>
std::chrono::milliseconds timeout_of(const Options& options) {
  return options.timeout.count() > 0 ? options.timeout : std::chrono::milliseconds(0);
}

// LibTorch before 2.12 has no types of their own for these two.
template <class Type>
consteval Type allgather_coalesced_type() {
  if constexpr (requires { Type::ALLGATHER_INTO_TENSOR_COALESCED; })
    return Type::ALLGATHER_INTO_TENSOR_COALESCED;
  else
    return Type::COALESCED;
}
template <class Type>
consteval Type reduce_scatter_coalesced_type() {
  if constexpr (requires { Type::REDUCE_SCATTER_TENSOR_COALESCED; })
    return Type::REDUCE_SCATTER_TENSOR_COALESCED;
  else
    return Type::COALESCED;
}

/// Not every options struct has the field, nor has each in every LibTorch.
template <class Options>
bool blocks(const Options& options) {
  if constexpr (requires { options.asyncOp; })
    return !options.asyncOp;
  else
    return false;
}

template <class Options>
uint8_t reduce_of(const Options& options) {
  return static_cast<uint8_t>(options.reduceOp.op_);
}

const std::vector<at::Tensor>& first_list(const std::vector<std::vector<at::Tensor>>& lists) {
  static const std::vector<at::Tensor> none;
  return lists.empty() ? none : lists[0];
}

}  // namespace

DecoratedBackend::DecoratedBackend(c10::intrusive_ptr<c10d::Backend> inner)
    : c10d::Backend(inner->getRank(), inner->getSize()), inner_(std::move(inner)) {}

DecoratedBackend::WorkPtr DecoratedBackend::broadcast(Tensors& tensors,
                                                      const c10d::BroadcastOptions& options) {
  const OpCall call{.kind = diagnose::OpKind::kBroadcast,
                    .type = OpType::BROADCAST,
                    .inputs = tensors,
                    .root = static_cast<int>(options.rootRank),
                    .timeout = timeout_of(options),
                    .blocks = blocks(options)};
  return pass(
      call, [](auto& inner, auto&... each) { return inner.broadcast(each...); }, tensors, options);
}

DecoratedBackend::WorkPtr DecoratedBackend::allreduce(Tensors& tensors,
                                                      const c10d::AllreduceOptions& options) {
  const OpCall call{.kind = diagnose::OpKind::kAllreduce,
                    .type = OpType::ALLREDUCE,
                    .inputs = tensors,
                    .reduce = reduce_of(options),
                    .timeout = timeout_of(options),
                    .blocks = blocks(options)};
  return pass(
      call, [](auto& inner, auto&... each) { return inner.allreduce(each...); }, tensors, options);
}

DecoratedBackend::WorkPtr DecoratedBackend::allreduce_sparse(
    Tensors& tensors, const c10d::AllreduceOptions& options) {
  const OpCall call{.kind = diagnose::OpKind::kAllreduceSparse,
                    .type = OpType::_ALLREDUCE_SPARSE,
                    .inputs = tensors,
                    .reduce = reduce_of(options),
                    .timeout = timeout_of(options),
                    .blocks = blocks(options)};
  return pass(
      call,
      [](auto& inner, auto&... each) { return inner.allreduce_sparse(each...); },
      tensors,
      options);
}

DecoratedBackend::WorkPtr DecoratedBackend::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  const OpCall call{.kind = diagnose::OpKind::kAllreduceCoalesced,
                    .type = OpType::ALLREDUCE_COALESCED,
                    .inputs = tensors,
                    .reduce = reduce_of(options),
                    .timeout = timeout_of(options),
                    .blocks = blocks(options)};
  return pass(
      call,
      [](auto& inner, auto&... each) { return inner.allreduce_coalesced(each...); },
      tensors,
      options);
}

DecoratedBackend::WorkPtr DecoratedBackend::reduce(Tensors& tensors,
                                                   const c10d::ReduceOptions& options) {
  const OpCall call{.kind = diagnose::OpKind::kReduce,
                    .type = OpType::REDUCE,
                    .inputs = tensors,
                    .root = static_cast<int>(options.rootRank),
                    .reduce = reduce_of(options),
                    .timeout = timeout_of(options),
                    .blocks = blocks(options)};
  return pass(
      call, [](auto& inner, auto&... each) { return inner.reduce(each...); }, tensors, options);
}

DecoratedBackend::WorkPtr DecoratedBackend::allgather(TensorLists& outputs,
                                                      Tensors& inputs,
                                                      const c10d::AllgatherOptions& options) {
  const OpCall call{.kind = diagnose::OpKind::kAllgather,
                    .type = OpType::ALLGATHER,
                    .inputs = inputs,
                    .outputs = first_list(outputs),
                    .timeout = timeout_of(options),
                    .blocks = blocks(options)};
  return pass(
      call,
      [](auto& inner, auto&... each) { return inner.allgather(each...); },
      outputs,
      inputs,
      options);
}

DecoratedBackend::WorkPtr DecoratedBackend::_allgather_base(at::Tensor& output,
                                                            at::Tensor& input,
                                                            const c10d::AllgatherOptions& options) {
  const Tensors inputs{input};
  const OpCall call{.kind = diagnose::OpKind::kAllgatherBase,
                    .type = OpType::_ALLGATHER_BASE,
                    .inputs = inputs,
                    .outputs = {output},
                    .timeout = timeout_of(options),
                    .blocks = blocks(options)};
  return pass(
      call,
      [](auto& inner, auto&... each) { return inner._allgather_base(each...); },
      output,
      input,
      options);
}

DecoratedBackend::WorkPtr DecoratedBackend::allgather_coalesced(
    TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  const OpCall call{.kind = diagnose::OpKind::kAllgatherCoalesced,
                    .type = OpType::ALLGATHER_COALESCED,
                    .inputs = inputs,
                    .outputs = first_list(outputs),
                    .timeout = timeout_of(options),
                    .blocks = blocks(options)};
  return pass(
      call,
      [](auto& inner, auto&... each) { return inner.allgather_coalesced(each...); },
      outputs,
      inputs,
      options);
}

DecoratedBackend::WorkPtr DecoratedBackend::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  const OpCall call{.kind = diagnose::OpKind::kAllgatherIntoTensorCoalesced,
                    .type = allgather_coalesced_type<OpType>(),
                    .inputs = inputs,
                    .outputs = outputs,
                    .timeout = timeout_of(options),
                    .blocks = blocks(options)};
  return pass(
      call,
      [](auto& inner, auto&... each) { return inner.allgather_into_tensor_coalesced(each...); },
      outputs,
      inputs,
      options);
}

DecoratedBackend::WorkPtr DecoratedBackend::gather(TensorLists& outputs,
                                                   Tensors& inputs,
                                                   const c10d::GatherOptions& options) {
  const OpCall call{.kind = diagnose::OpKind::kGather,
                    .type = OpType::GATHER,
                    .inputs = inputs,
                    .outputs = first_list(outputs),
                    .root = static_cast<int>(options.rootRank),
                    .timeout = timeout_of(options),
                    .blocks = blocks(options)};
  return pass(
      call,
      [](auto& inner, auto&... each) { return inner.gather(each...); },
      outputs,
      inputs,
      options);
}

DecoratedBackend::WorkPtr DecoratedBackend::scatter(Tensors& outputs,
                                                    TensorLists& inputs,
                                                    const c10d::ScatterOptions& options) {
  const OpCall call{.kind = diagnose::OpKind::kScatter,
                    .type = OpType::SCATTER,
                    .inputs = first_list(inputs),
                    .outputs = outputs,
                    .root = static_cast<int>(options.rootRank),
                    .timeout = timeout_of(options),
                    .blocks = blocks(options)};
  return pass(
      call,
      [](auto& inner, auto&... each) { return inner.scatter(each...); },
      outputs,
      inputs,
      options);
}

DecoratedBackend::WorkPtr DecoratedBackend::reduce_scatter(
    Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& options) {
  const OpCall call{.kind = diagnose::OpKind::kReduceScatter,
                    .type = OpType::REDUCE_SCATTER,
                    .inputs = first_list(inputs),
                    .outputs = outputs,
                    .reduce = reduce_of(options),
                    .timeout = timeout_of(options),
                    .blocks = blocks(options)};
  return pass(
      call,
      [](auto& inner, auto&... each) { return inner.reduce_scatter(each...); },
      outputs,
      inputs,
      options);
}

DecoratedBackend::WorkPtr DecoratedBackend::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  const Tensors inputs{input};
  const OpCall call{.kind = diagnose::OpKind::kReduceScatterBase,
                    .type = OpType::_REDUCE_SCATTER_BASE,
                    .inputs = inputs,
                    .outputs = {output},
                    .reduce = reduce_of(options),
                    .timeout = timeout_of(options),
                    .blocks = blocks(options)};
  return pass(
      call,
      [](auto& inner, auto&... each) { return inner._reduce_scatter_base(each...); },
      output,
      input,
      options);
}

DecoratedBackend::WorkPtr DecoratedBackend::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  const OpCall call{.kind = diagnose::OpKind::kReduceScatterTensorCoalesced,
                    .type = reduce_scatter_coalesced_type<OpType>(),
                    .inputs = inputs,
                    .outputs = outputs,
                    .reduce = reduce_of(options),
                    .timeout = timeout_of(options),
                    .blocks = blocks(options)};
  return pass(
      call,
      [](auto& inner, auto&... each) { return inner.reduce_scatter_tensor_coalesced(each...); },
      outputs,
      inputs,
      options);
}

DecoratedBackend::WorkPtr DecoratedBackend::alltoall(Tensors& outputs,
                                                     Tensors& inputs,
                                                     const c10d::AllToAllOptions& options) {
  const OpCall call{.kind = diagnose::OpKind::kAlltoall,
                    .type = OpType::ALLTOALL,
                    .inputs = inputs,
                    .outputs = outputs,
                    .timeout = timeout_of(options),
                    .blocks = blocks(options)};
  return pass(
      call,
      [](auto& inner, auto&... each) { return inner.alltoall(each...); },
      outputs,
      inputs,
      options);
}

DecoratedBackend::WorkPtr DecoratedBackend::alltoall_base(at::Tensor& output,
                                                          at::Tensor& input,
                                                          std::vector<int64_t>& output_splits,
                                                          std::vector<int64_t>& input_splits,
                                                          const c10d::AllToAllOptions& options) {
  const Tensors inputs{input};
  const OpCall call{.kind = diagnose::OpKind::kAlltoallBase,
                    .type = OpType::ALLTOALL_BASE,
                    .inputs = inputs,
                    .outputs = {output},
                    .timeout = timeout_of(options),
                    .blocks = blocks(options)};
  return pass(
      call,
      [](auto& inner, auto&... each) { return inner.alltoall_base(each...); },
      output,
      input,
      output_splits,
      input_splits,
      options);
}

DecoratedBackend::WorkPtr DecoratedBackend::barrier(const c10d::BarrierOptions& options) {
  const Tensors none;
  const OpCall call{.kind = diagnose::OpKind::kBarrier,
                    .type = OpType::BARRIER,
                    .inputs = none,
                    .timeout = timeout_of(options),
                    .blocks = blocks(options)};
  return pass(
      call, [](auto& inner, auto&... each) { return inner.barrier(each...); }, options);
}

void DecoratedBackend::setGroupUid(const std::string& uid) {
  c10d::Backend::setGroupUid(uid);
  inner_->setGroupUid(uid);
}

}  // namespace muster::distributed
