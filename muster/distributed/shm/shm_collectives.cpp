#include "muster/distributed/shm/shm_collectives.h"

#include <algorithm>
#include <cstring>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/shm/shm_reduce.h"
#include "muster/distributed/shm/shm_slices.h"

namespace muster::distributed {
namespace {

using c10d::OpType;
using c10d::ReduceOp;

// Up to here every rank reduces everything, which needs one barrier; beyond it each reduces a slice
// (Note [Slices]), which needs two. Measured on two cores with all-reduces of 16 KiB: 2 ranks,
// which spin, take 8.0 us with one barrier and 6.9 with two; 4 ranks, which sleep, 67 and 79 us.
constexpr size_t kOneStepBytes = 16 << 10;
constexpr size_t kSlotAlign = 64;

/// A tensor's elements as bytes in logical order. `commit` puts them back where the tensor's own
/// memory has another order or gaps.
class Bytes {
 public:
  Bytes() = default;
  explicit Bytes(const at::Tensor& tensor)
      : tensor_(tensor), dense_(tensor.is_contiguous() ? tensor : tensor.contiguous()) {
    if (dense_.is_conj()) dense_ = dense_.resolve_conj();
    if (dense_.is_neg()) dense_ = dense_.resolve_neg();
    data_ = static_cast<std::byte*>(dense_.data_ptr());
    size_ = dense_.nbytes();
  }
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  Bytes part(size_t from, size_t size) const {
    Bytes bytes;
    bytes.data_ = data_ + from;
    bytes.size_ = size;
    return bytes;
  }
  void commit() {
    if (!dense_.is_same(tensor_)) tensor_.copy_(dense_);
  }

 private:
  at::Tensor tensor_, dense_;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

std::vector<Bytes> bytes_of(const std::vector<at::Tensor>& tensors) {
  std::vector<Bytes> all;
  for (const at::Tensor& tensor : tensors) all.emplace_back(tensor);
  return all;
}

/// What one rank gives and takes in an exchange. Empty `give`: nothing.
struct Exchange {
  bool same_for_all = true;  ///< give[0] is for every rank; else give[r] is for rank r
  std::vector<Bytes> give;
  std::vector<Bytes> take;  ///< by source rank; empty: nothing
  /// Instead of copying: `take` is one, and becomes the reduction of what all ranks give.
  const ReduceOp* reduce = nullptr;
  at::ScalarType dtype = at::kByte;
  bool check_sizes = false;  ///< sizes are not part of the signature
};

class Exchanger {
 public:
  Exchanger(ShmSteps& steps, const Exchange& exchange)
      : steps_(steps),
        exchange_(exchange),
        world_(static_cast<size_t>(steps.world_size())),
        piece_(exchange.same_for_all
                   ? steps.segment().slot_bytes()
                   : steps.segment().slot_bytes() / world_ / kSlotAlign * kSlotAlign) {}

  void run() {
    if (exchange_.check_sizes) tell_sizes();
    size_t rounds = 1;
    for (size_t round = 0; round < rounds; ++round) {
      write(round * piece_);
      steps_.turn();
      if (round == 0) rounds = std::max<size_t>(1, (largest() + piece_ - 1) / piece_);
      read(round * piece_);
    }
  }

 private:
  size_t given(size_t to) const {
    if (exchange_.give.empty()) return 0;
    return exchange_.give[exchange_.same_for_all ? 0 : to].size();
  }

  void tell_sizes() {
    int64_t* table = steps_.table_to_write();
    for (size_t r = 0; r < world_; ++r) {
      table[r] = static_cast<int64_t>(given(r));
      table[world_ + r] =
          exchange_.take.empty() ? -1 : static_cast<int64_t>(exchange_.take[r].size());
    }
  }

  /// Bytes of the longest way from a rank to a rank, alike on all ranks.
  size_t largest() const {
    if (!exchange_.check_sizes) {
      size_t most = 0;
      for (const Bytes& bytes : exchange_.give) most = std::max(most, bytes.size());
      for (const Bytes& bytes : exchange_.take) most = std::max(most, bytes.size());
      return most;
    }
    int64_t most = 0;
    for (size_t from = 0; from < world_; ++from) {
      for (size_t to = 0; to < world_; ++to) {
        const int64_t gives = steps_.table(static_cast<int>(from))[to];
        const int64_t takes = steps_.table(static_cast<int>(to))[world_ + from];
        if (takes < 0) continue;
        if (gives != takes) {
          throw unequal_parts(
              steps_.name(static_cast<int>(from)), gives, steps_.name(static_cast<int>(to)), takes);
        }
        most = std::max(most, gives);
      }
    }
    return static_cast<size_t>(most);
  }

  void write(size_t at) const {
    std::byte* slot = steps_.slot_to_write(steps_.rank());
    for (size_t i = 0; i < exchange_.give.size(); ++i) {
      const Bytes& bytes = exchange_.give[i];
      if (at < bytes.size())
        std::memcpy(slot + i * piece_, bytes.data() + at, std::min(piece_, bytes.size() - at));
    }
  }

  void read(size_t at) const {
    const size_t mine = exchange_.same_for_all ? 0 : static_cast<size_t>(steps_.rank()) * piece_;
    if (exchange_.reduce != nullptr) return reduce(at, mine);
    for (size_t from = 0; from < exchange_.take.size(); ++from) {
      const Bytes& bytes = exchange_.take[from];
      if (at < bytes.size())
        std::memcpy(bytes.data() + at,
                    steps_.slot(static_cast<int>(from)) + mine,
                    std::min(piece_, bytes.size() - at));
    }
  }

  void reduce(size_t at, size_t mine) const {
    const Bytes& bytes = exchange_.take[0];
    if (at >= bytes.size()) return;
    std::vector<const std::byte*> values;
    for (size_t from = 0; from < world_; ++from)
      values.push_back(steps_.slot(static_cast<int>(from)) + mine);
    std::byte* const into[] = {bytes.data() + at};
    reduce_values(exchange_.reduce->op_,
                  exchange_.dtype,
                  values,
                  into,
                  std::min(piece_, bytes.size() - at) / c10::elementSize(exchange_.dtype));
  }

  ShmSteps& steps_;
  const Exchange& exchange_;
  const size_t world_, piece_;
};

/// In place, on all ranks or, with `root` >= 0, on that one.
void reduce_tensor(ShmSteps& steps, const at::Tensor& tensor, const ReduceOp& op, int root = -1) {
  const bool take = root < 0 || root == steps.rank();
  Bytes data(tensor);
  if (data.size() <= kOneStepBytes) {
    Exchange exchange{.give = {data}, .dtype = tensor.scalar_type()};
    if (take) {
      exchange.take = {data};
      exchange.reduce = &op;
    }
    Exchanger(steps, exchange).run();
  } else {
    reduce_in_slices(steps, data.data(), data.size(), op.op_, tensor.scalar_type(), root);
  }
  if (take) data.commit();
}

/// Small tensors together, in one go.
void reduce_list(ShmSteps& steps, const Contribution& part) {
  std::vector<at::Tensor> flat;
  bool one_dtype = true;
  for (const at::Tensor& tensor : part.inputs) {
    flat.push_back(tensor.reshape(-1));
    one_dtype = one_dtype && tensor.scalar_type() == part.inputs[0].scalar_type();
  }
  if (!one_dtype || part.inputs.size() == 1) {
    for (const at::Tensor& tensor : part.inputs) reduce_tensor(steps, tensor, part.reduce_op);
    return;
  }
  const at::Tensor together = at::cat(flat);
  reduce_tensor(steps, together, part.reduce_op);
  int64_t from = 0;
  for (at::Tensor tensor : part.inputs) {
    tensor.copy_(together.narrow(0, from, tensor.numel()).view(tensor.sizes()));
    from += tensor.numel();
  }
}

void broadcast(ShmSteps& steps, const Contribution& part) {
  for (const at::Tensor& tensor : part.inputs) {
    Bytes data(tensor);
    Exchange exchange;
    if (steps.rank() == part.root) {
      exchange.give = {data};
    } else {
      exchange.take.resize(static_cast<size_t>(steps.world_size()));
      exchange.take[static_cast<size_t>(part.root)] = data;
    }
    Exchanger(steps, exchange).run();
    if (steps.rank() != part.root) data.commit();
  }
}

/// Equal parts of a tensor, by rank.
std::vector<Bytes> parts_of(const Bytes& whole, size_t world) {
  std::vector<Bytes> parts;
  for (size_t r = 0; r < world; ++r)
    parts.push_back(whole.part(r * (whole.size() / world), whole.size() / world));
  return parts;
}

std::vector<Bytes> rows_of_ranks(const Bytes& whole,
                                 const at::Tensor& tensor,
                                 const std::vector<int64_t>& splits,
                                 size_t world) {
  const size_t row = tensor.size(0) == 0 ? 0 : whole.size() / static_cast<size_t>(tensor.size(0));
  std::vector<Bytes> parts;
  for (size_t r = 0; r < world; ++r) {
    const Rows rows = rows_of(tensor, splits, r, world);
    parts.push_back(
        whole.part(static_cast<size_t>(rows.start) * row, static_cast<size_t>(rows.count) * row));
  }
  return parts;
}

void exchange_lists(ShmSteps& steps, const Contribution& part) {
  const size_t world = static_cast<size_t>(steps.world_size());
  const bool is_root = steps.rank() == part.root;
  Exchange exchange{.check_sizes = true};
  std::vector<Bytes> inputs = bytes_of(part.inputs), outputs = bytes_of(part.outputs);
  switch (part.op) {
    case OpType::ALLGATHER:
      exchange.give = inputs;
      exchange.take = outputs;
      break;
    case OpType::_ALLGATHER_BASE:
      exchange.give = inputs;
      exchange.take = parts_of(outputs[0], world);
      break;
    case OpType::GATHER:
      exchange.give = inputs;
      if (is_root) exchange.take = outputs;
      break;
    case OpType::SCATTER:
      exchange.same_for_all = false;
      if (is_root) exchange.give = inputs;
      exchange.take.resize(world);
      exchange.take[static_cast<size_t>(part.root)] = outputs[0];
      break;
    case OpType::ALLTOALL:
      exchange.same_for_all = false;
      exchange.give = inputs;
      exchange.take = outputs;
      break;
    default:
      exchange.same_for_all = false;
      exchange.give = rows_of_ranks(inputs[0], part.inputs[0], part.input_splits, world);
      exchange.take = rows_of_ranks(outputs[0], part.outputs[0], part.output_splits, world);
  }
  Exchanger(steps, exchange).run();
  for (Bytes& output : outputs) output.commit();
}

void reduce_scatter(ShmSteps& steps, const Contribution& part) {
  const size_t world = static_cast<size_t>(steps.world_size());
  std::vector<Bytes> inputs = bytes_of(part.inputs);
  Bytes output(part.outputs[0]);
  Exchange exchange{.same_for_all = false,
                    .give = part.op == OpType::REDUCE_SCATTER ? inputs : parts_of(inputs[0], world),
                    .take = {output},
                    .reduce = &part.reduce_op,
                    .dtype = part.outputs[0].scalar_type()};
  Exchanger(steps, exchange).run();
  output.commit();
}

}  // namespace

void run_shm_collective(ShmSteps& steps, const Contribution& part) {
  const c10::NoGradGuard no_grad;
  switch (part.op) {
    case OpType::ALLREDUCE:
    case OpType::ALLREDUCE_COALESCED:
      return reduce_list(steps, part);
    case OpType::REDUCE:
      return reduce_tensor(steps, part.inputs[0], part.reduce_op, part.root);
    case OpType::BROADCAST:
      return broadcast(steps, part);
    case OpType::REDUCE_SCATTER:
    case OpType::_REDUCE_SCATTER_BASE:
      return reduce_scatter(steps, part);
    case OpType::BARRIER:
      return steps.turn();
    default:
      return exchange_lists(steps, part);
  }
}

}  // namespace muster::distributed
