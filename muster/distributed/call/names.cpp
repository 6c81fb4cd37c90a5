#include "muster/distributed/call/names.h"

#include <algorithm>
#include <optional>

#include "muster/diagnose/record/op_record.h"

namespace muster::distributed {
namespace {

using c10d::OpType;
using diagnose::OpKind;

std::optional<OpKind> kind_of(OpType type) {
  switch (type) {
    case OpType::BROADCAST:
      return OpKind::kBroadcast;
    case OpType::ALLREDUCE:
      return OpKind::kAllreduce;
    case OpType::ALLREDUCE_COALESCED:
      return OpKind::kAllreduceCoalesced;
    case OpType::_ALLREDUCE_SPARSE:
      return OpKind::kAllreduceSparse;
    case OpType::REDUCE:
      return OpKind::kReduce;
    case OpType::ALLGATHER:
      return OpKind::kAllgather;
    case OpType::_ALLGATHER_BASE:
      return OpKind::kAllgatherBase;
    case OpType::ALLGATHER_COALESCED:
      return OpKind::kAllgatherCoalesced;
    case OpType::GATHER:
      return OpKind::kGather;
    case OpType::SCATTER:
      return OpKind::kScatter;
    case OpType::REDUCE_SCATTER:
      return OpKind::kReduceScatter;
    case OpType::_REDUCE_SCATTER_BASE:
      return OpKind::kReduceScatterBase;
    case OpType::ALLTOALL:
      return OpKind::kAlltoall;
    case OpType::ALLTOALL_BASE:
      return OpKind::kAlltoallBase;
    case OpType::BARRIER:
      return OpKind::kBarrier;
    case OpType::SEND:
      return OpKind::kSend;
    case OpType::RECV:
      return OpKind::kRecv;
    case OpType::RECVANYSOURCE:
      return OpKind::kRecvAny;
    default:
      return std::nullopt;
  }
}

char lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

}  // namespace

std::string operation_name(OpType type) {
  if (const auto kind = kind_of(type)) return std::string(diagnose::op_name(*kind));
  std::string name = c10d::opTypeToString(type);
  std::transform(name.begin(), name.end(), name.begin(), lower);
  return name;
}

}  // namespace muster::distributed
