// What each collective does, once every rank's tensors are there. See Note [Thread ranks].
#include <functional>

#include <ATen/ops/stack.h>
#include <c10/core/GradMode.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/thread_board.h"

namespace muster::parallel {
namespace {

using c10d::OpType;
using c10d::ReduceOp;

std::string reduce_name(const ReduceOp& op) {
  switch (op.op_) {
    case ReduceOp::SUM:
      return "sum";
    case ReduceOp::AVG:
      return "avg";
    case ReduceOp::PRODUCT:
      return "product";
    case ReduceOp::MIN:
      return "min";
    case ReduceOp::MAX:
      return "max";
    case ReduceOp::BAND:
      return "band";
    case ReduceOp::BOR:
      return "bor";
    case ReduceOp::BXOR:
      return "bxor";
    default:
      return "unsupported";
  }
}

bool reduces(OpType op) {
  return op == OpType::ALLREDUCE || op == OpType::REDUCE || op == OpType::REDUCE_SCATTER ||
         op == OpType::_REDUCE_SCATTER_BASE || op == OpType::ALLREDUCE_COALESCED;
}

bool has_root(OpType op) {
  return op == OpType::BROADCAST || op == OpType::REDUCE || op == OpType::GATHER ||
         op == OpType::SCATTER;
}

void accumulate(at::Tensor& into, const at::Tensor& theirs, const ReduceOp& op) {
  const at::Tensor value = theirs.to(into.device());  // itself, on the same device
  switch (op.op_) {
    case ReduceOp::SUM:
    case ReduceOp::AVG:
      into.add_(value);
      break;
    case ReduceOp::PRODUCT:
      into.mul_(value);
      break;
    case ReduceOp::MIN:
      into.copy_(at::minimum(into, value));
      break;
    case ReduceOp::MAX:
      into.copy_(at::maximum(into, value));
      break;
    case ReduceOp::BAND:
      into.bitwise_and_(value);
      break;
    case ReduceOp::BOR:
      into.bitwise_or_(value);
      break;
    case ReduceOp::BXOR:
      into.bitwise_xor_(value);
      break;
    default:
      throw usage_error({.refused = "reduce operation",
                         .rule = "thread ranks know sum, avg, product, min, max, band, bor, bxor"});
  }
}

/// Reduces tensor(0), tensor(1), … in rank order into `into`, which may be one of them only if it
/// is the first.
void reduce_in_order(at::Tensor& into,
                     int world_size,
                     const ReduceOp& op,
                     const std::function<at::Tensor(int)>& tensor) {
  if (!into.is_same(tensor(0))) into.copy_(tensor(0));
  for (int rank = 1; rank < world_size; ++rank) accumulate(into, tensor(rank), op);
  if (op.op_ == ReduceOp::AVG) into.div_(world_size);
}

void allreduce(std::vector<Contribution>& parts) {
  const int world = static_cast<int>(parts.size());
  for (size_t i = 0; i < parts[0].inputs.size(); ++i) {
    at::Tensor& sum = parts[0].inputs[i];
    reduce_in_order(
        sum, world, parts[0].reduce_op, [&](int rank) { return parts[rank].inputs[i]; });
    for (int rank = 1; rank < world; ++rank) parts[rank].inputs[i].copy_(sum);
  }
}

void reduce(std::vector<Contribution>& parts) {
  at::Tensor sum = parts[0].inputs[0].clone();
  reduce_in_order(sum, static_cast<int>(parts.size()), parts[0].reduce_op, [&](int rank) {
    return rank == 0 ? sum : parts[rank].inputs[0];
  });
  parts[parts[0].root].inputs[0].copy_(sum);
}

void broadcast(std::vector<Contribution>& parts) {
  const Contribution& root = parts[parts[0].root];
  for (Contribution& part : parts) {
    if (&part == &root) continue;
    for (size_t i = 0; i < part.inputs.size(); ++i) part.inputs[i].copy_(root.inputs[i]);
  }
}

/// outputs[r] of every rank (or of the root alone) is rank r's input.
void gather(std::vector<Contribution>& parts) {
  const bool only_root = parts[0].op == OpType::GATHER;
  for (size_t to = 0; to < parts.size(); ++to) {
    if (only_root && static_cast<int>(to) != parts[0].root) continue;
    for (size_t from = 0; from < parts.size(); ++from)
      parts[to].outputs[from].copy_(parts[from].inputs[0]);
  }
}

void allgather_base(std::vector<Contribution>& parts) {
  const int64_t world = static_cast<int64_t>(parts.size());
  for (Contribution& to : parts) {
    const at::Tensor rows = to.outputs[0].view({world, -1});
    for (int64_t from = 0; from < world; ++from)
      rows.select(0, from).copy_(parts[from].inputs[0].reshape(-1));
  }
}

void scatter(std::vector<Contribution>& parts) {
  const Contribution& root = parts[parts[0].root];
  for (size_t to = 0; to < parts.size(); ++to) parts[to].outputs[0].copy_(root.inputs[to]);
}

void reduce_scatter(std::vector<Contribution>& parts) {
  const int world = static_cast<int>(parts.size());
  for (int to = 0; to < world; ++to) {
    at::Tensor sum = parts[0].inputs[to].clone();
    reduce_in_order(sum, world, parts[0].reduce_op, [&](int rank) {
      return rank == 0 ? sum : parts[rank].inputs[to];
    });
    parts[to].outputs[0].copy_(sum);
  }
}

void reduce_scatter_base(std::vector<Contribution>& parts) {
  const int world = static_cast<int>(parts.size());
  for (int to = 0; to < world; ++to) {
    const auto slice = [&](int rank) {
      return parts[rank].inputs[0].view({world, -1}).select(0, to);
    };
    at::Tensor sum = slice(0).clone();
    reduce_in_order(
        sum, world, parts[0].reduce_op, [&](int rank) { return rank == 0 ? sum : slice(rank); });
    parts[to].outputs[0].view(-1).copy_(sum);
  }
}

void alltoall(std::vector<Contribution>& parts) {
  for (size_t to = 0; to < parts.size(); ++to) {
    for (size_t from = 0; from < parts.size(); ++from)
      parts[to].outputs[from].copy_(parts[from].inputs[to]);
  }
}

/// Where rank `index`'s rows start and how many there are, for given splits or even ones.
std::pair<int64_t, int64_t> rows_of(const at::Tensor& tensor,
                                    const std::vector<int64_t>& splits,
                                    size_t index,
                                    size_t world) {
  if (splits.empty()) {
    const int64_t each = tensor.size(0) / static_cast<int64_t>(world);
    return {each * static_cast<int64_t>(index), each};
  }
  int64_t start = 0;
  for (size_t i = 0; i < index; ++i) start += splits[i];
  return {start, splits[index]};
}

void alltoall_base(std::vector<Contribution>& parts) {
  const size_t world = parts.size();
  for (size_t to = 0; to < world; ++to) {
    for (size_t from = 0; from < world; ++from) {
      const auto [out_start, out_rows] =
          rows_of(parts[to].outputs[0], parts[to].output_splits, from, world);
      const auto [in_start, in_rows] =
          rows_of(parts[from].inputs[0], parts[from].input_splits, to, world);
      parts[to]
          .outputs[0]
          .narrow(0, out_start, out_rows)
          .copy_(parts[from].inputs[0].narrow(0, in_start, in_rows));
    }
  }
}

void require_same_operation(const std::vector<Contribution>& parts) {
  for (size_t rank = 1; rank < parts.size(); ++rank) {
    const std::string first = parts[0].describe(), other = parts[rank].describe();
    if (first == other) continue;
    throw usage_error(
        {.refused = "ranks disagree on a collective",
         .rule = "all ranks call the same operations in the same order with the same shapes",
         .value = concat("rank 0: ", first, "; rank ", rank, ": ", other)});
  }
}

}  // namespace

std::string Contribution::describe() const {
  std::string text = c10d::opTypeToString(op);
  if (reduces(op)) text += " " + reduce_name(reduce_op);
  if (has_root(op)) text += concat(" root ", root);
  // Ranks give different lists to scatter and gather (only the root's is full), and all-to-all rows
  // differ by design.
  const bool lists_differ = op == OpType::SCATTER || op == OpType::GATHER ||
                            op == OpType::ALLTOALL || op == OpType::ALLTOALL_BASE ||
                            op == OpType::ALLGATHER;
  if (lists_differ) return text;
  for (const at::Tensor& tensor : inputs) {
    text += concat(" ",
                   c10::toString(tensor.scalar_type()),
                   "[",
                   join(
                       [&] {
                         std::vector<std::string> sizes;
                         for (int64_t size : tensor.sizes()) sizes.push_back(std::to_string(size));
                         return sizes;
                       }(),
                       ", "),
                   "]");
  }
  return text;
}

void run_collective(std::vector<Contribution>& parts) {
  const c10::NoGradGuard no_grad;
  require_same_operation(parts);
  switch (parts[0].op) {
    case OpType::ALLREDUCE:
    case OpType::ALLREDUCE_COALESCED:
      return allreduce(parts);
    case OpType::BROADCAST:
      return broadcast(parts);
    case OpType::REDUCE:
      return reduce(parts);
    case OpType::ALLGATHER:
    case OpType::GATHER:
      return gather(parts);
    case OpType::_ALLGATHER_BASE:
      return allgather_base(parts);
    case OpType::SCATTER:
      return scatter(parts);
    case OpType::REDUCE_SCATTER:
      return reduce_scatter(parts);
    case OpType::_REDUCE_SCATTER_BASE:
      return reduce_scatter_base(parts);
    case OpType::ALLTOALL:
      return alltoall(parts);
    case OpType::ALLTOALL_BASE:
      return alltoall_base(parts);
    case OpType::BARRIER:
      return;
    default:
      throw internal_error(
          {.refused = "operation " + parts[0].describe(), .rule = "thread ranks do not know it"});
  }
}

}  // namespace muster::parallel
