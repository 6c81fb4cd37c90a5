// What each collective does, once every rank's tensors are there. See Note [Thread ranks].
#include <functional>

#include <c10/core/GradMode.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/thread/thread_exchange.h"

namespace muster::distributed {
namespace {

using c10d::OpType;
using c10d::ReduceOp;

/// Calls reduce_in_order on tensor(0), tensor(1), ….
void reduce_ranks(at::Tensor& into,
                  int world_size,
                  const ReduceOp& op,
                  const std::function<at::Tensor(int)>& tensor) {
  std::vector<at::Tensor> values;
  for (int rank = 0; rank < world_size; ++rank) values.push_back(tensor(rank));
  reduce_in_order(into, values, op.op_);
}

void allreduce(std::vector<Contribution>& parts) {
  const int world = static_cast<int>(parts.size());
  for (size_t i = 0; i < parts[0].inputs.size(); ++i) {
    at::Tensor& sum = parts[0].inputs[i];
    reduce_ranks(sum, world, parts[0].reduce_op, [&](int rank) { return parts[rank].inputs[i]; });
    for (int rank = 1; rank < world; ++rank) parts[rank].inputs[i].copy_(sum);
  }
}

void reduce(std::vector<Contribution>& parts) {
  at::Tensor sum = parts[0].inputs[0].clone();
  reduce_ranks(sum, static_cast<int>(parts.size()), parts[0].reduce_op, [&](int rank) {
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

/// What goes from a rank to a rank.
struct Move {
  size_t from, to;
  at::Tensor given, taken;
};

/// Throws a usage error, before anything is written, where a rank takes other than is given to it.
void make(const std::vector<Move>& moves) {
  for (const Move& move : moves) {
    const auto gives = static_cast<int64_t>(move.given.nbytes()),
               takes = static_cast<int64_t>(move.taken.nbytes());
    if (gives != takes) throw unequal_parts(move.from, gives, move.to, takes);
  }
  for (const Move& move : moves)
    at::Tensor(move.taken).copy_(move.given.reshape(move.taken.sizes()));
}

/// outputs[r] of every rank (or of the root alone) is rank r's input.
void gather(std::vector<Contribution>& parts) {
  const bool only_root = parts[0].op == OpType::GATHER;
  std::vector<Move> moves;
  for (size_t to = 0; to < parts.size(); ++to) {
    if (only_root && static_cast<int>(to) != parts[0].root) continue;
    for (size_t from = 0; from < parts.size(); ++from)
      moves.push_back({from, to, parts[from].inputs[0], parts[to].outputs[from]});
  }
  make(moves);
}

/// The ranks' tensors may be on several devices.
void allgather_base(std::vector<Contribution>& parts) {
  const int64_t each = parts[0].inputs[0].numel();
  std::vector<at::Tensor> rows;
  for (const Contribution& from : parts) {
    const at::Tensor row = from.inputs[0].reshape(-1);
    // It may be a part of the output, and not the one where it goes.
    rows.push_back(row.is_alias_of(from.outputs[0]) ? row.clone() : row);
  }
  for (Contribution& to : parts) {
    const at::Tensor whole = to.outputs[0].contiguous();
    int64_t at = 0;
    for (const at::Tensor& row : rows) {
      whole.view(-1).narrow(0, at, each).copy_(row);
      at += each;
    }
    if (!whole.is_same(to.outputs[0])) to.outputs[0].copy_(whole);
  }
}

void scatter(std::vector<Contribution>& parts) {
  const auto root = static_cast<size_t>(parts[0].root);
  std::vector<Move> moves;
  for (size_t to = 0; to < parts.size(); ++to)
    moves.push_back({root, to, parts[root].inputs[to], parts[to].outputs[0]});
  make(moves);
}

void reduce_scatter(std::vector<Contribution>& parts) {
  const int world = static_cast<int>(parts.size());
  for (int to = 0; to < world; ++to) {
    at::Tensor sum = parts[0].inputs[to].clone();
    reduce_ranks(sum, world, parts[0].reduce_op, [&](int rank) {
      return rank == 0 ? sum : parts[rank].inputs[to];
    });
    parts[to].outputs[0].copy_(sum);
  }
}

void reduce_scatter_base(std::vector<Contribution>& parts) {
  const int world = static_cast<int>(parts.size());
  for (int to = 0; to < world; ++to) {
    const auto slice = [&](int rank) {
      return parts[rank].inputs[0].reshape({world, -1}).select(0, to);
    };
    at::Tensor sum = slice(0).clone();
    reduce_ranks(
        sum, world, parts[0].reduce_op, [&](int rank) { return rank == 0 ? sum : slice(rank); });
    parts[to].outputs[0].copy_(sum.view(parts[to].outputs[0].sizes()));
  }
}

void alltoall(std::vector<Contribution>& parts) {
  std::vector<Move> moves;
  for (size_t to = 0; to < parts.size(); ++to) {
    for (size_t from = 0; from < parts.size(); ++from)
      moves.push_back({from, to, parts[from].inputs[to], parts[to].outputs[from]});
  }
  make(moves);
}

/// Throws a usage error where a rank takes other rows than are given to it.
void require_matching_rows(const std::vector<Contribution>& parts) {
  const size_t world = parts.size();
  const auto bytes = [world](
                         const at::Tensor& tensor, const std::vector<int64_t>& splits, size_t i) {
    const int64_t row = tensor.size(0) == 0 ? 0 : tensor.numel() / tensor.size(0);
    return rows_of(tensor, splits, i, world).count * row * tensor.element_size();
  };
  for (size_t from = 0; from < world; ++from) {
    for (size_t to = 0; to < world; ++to) {
      const int64_t gives = bytes(parts[from].inputs[0], parts[from].input_splits, to);
      const int64_t takes = bytes(parts[to].outputs[0], parts[to].output_splits, from);
      if (gives != takes) throw unequal_parts(from, gives, to, takes);
    }
  }
}

void alltoall_base(std::vector<Contribution>& parts) {
  const size_t world = parts.size();
  require_matching_rows(parts);
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
  const OpSignature first = OpSignature::of(parts[0], 0);
  for (size_t rank = 1; rank < parts.size(); ++rank) {
    const OpSignature other = OpSignature::of(parts[rank], 0);
    if (first.fits(other)) continue;
    throw usage_error(
        {.refused = "ranks disagree on a collective",
         .rule = "all ranks call the same operations in the same order with the same shapes",
         .value = concat("rank 0: ", first.describe(), "; rank ", rank, ": ", other.describe())});
  }
}

}  // namespace

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

}  // namespace muster::distributed
