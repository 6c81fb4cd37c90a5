// What each collective does on two levels. See Note [Two levels].
#include <algorithm>
#include <cstring>
#include <utility>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/two_level/two_level_parts.h"

namespace muster::distributed {
namespace {

using c10d::OpType;
using c10d::ReduceOp;
using Tensors = std::vector<at::Tensor>;

constexpr int64_t kVerdictBytes = 1024;

/// A backend may answer null where nothing is left to wait for.
void wait_for(const Side& side, const c10::intrusive_ptr<c10d::Work>& work) {
  if (!work) return;
  side.interrupt != nullptr ? side.interrupt->wait(work) : void(work->wait());
}

template <class Options>
Options waited(const Side& side, int root = 0, ReduceOp::RedOpType op = ReduceOp::SUM) {
  Options options;
  options.timeout = side.timeout;
  options.asyncOp = false;
  if constexpr (requires { options.rootRank; }) options.rootRank = root;
  if constexpr (requires { options.reduceOp; }) options.reduceOp = op;
  return options;
}

void all_reduce(const Side& side, at::Tensor tensor, ReduceOp::RedOpType op) {
  Tensors tensors{std::move(tensor)};
  wait_for(side, side.group.allreduce(tensors, waited<c10d::AllreduceOptions>(side, 0, op)));
}

void broadcast_from(const Side& side, at::Tensor tensor, int root) {
  Tensors tensors{std::move(tensor)};
  wait_for(side, side.group.broadcast(tensors, waited<c10d::BroadcastOptions>(side, root)));
}

/// [size of the group, …] of equal tensors.
at::Tensor all_gather_in(const Side& side, const at::Tensor& tensor) {
  std::vector<int64_t> sizes = tensor.sizes().vec();
  sizes.insert(sizes.begin(), side.group.getSize());
  at::Tensor all = at::empty(sizes, tensor.options());
  std::vector<Tensors> outputs{all.unbind(0)};
  Tensors inputs{tensor};
  wait_for(side, side.group.allgather(outputs, inputs, waited<c10d::AllgatherOptions>(side)));
  return all;
}

/// A tensor's elements in logical order as one row of bytes; a view where that is possible.
at::Tensor flat_bytes(const at::Tensor& tensor) {
  return tensor.contiguous().resolve_conj().resolve_neg().view(-1).view(at::kByte);
}

void set_bytes(at::Tensor tensor, const at::Tensor& bytes) {
  if (bytes.is_alias_of(tensor)) return;
  tensor.copy_(bytes.contiguous().view(tensor.scalar_type()).view(tensor.sizes()));
}

/// What gloo reduces as we mean it: it takes bools for numbers, and knows no complex ones.
bool gloo_reduces(at::ScalarType dtype) {
  return dtype == at::kFloat || dtype == at::kDouble || dtype == at::kHalf || dtype == at::kInt ||
         dtype == at::kLong || dtype == at::kChar || dtype == at::kByte;
}

at::Tensor text_tensor(const std::string& text) {
  at::Tensor tensor = at::zeros({kVerdictBytes}, at::kByte);
  std::memcpy(tensor.data_ptr(), text.data(), std::min<size_t>(text.size(), kVerdictBytes - 1));
  return tensor;
}

std::string text_from(const at::Tensor& tensor) {
  return static_cast<const char*>(tensor.const_data_ptr());
}

/// The first of [ranks, bytes of a signature] that does not fit the reference, in words.
std::string first_misfit(const OpSignature& reference,
                         int reference_rank,
                         const at::Tensor& rows,
                         const std::vector<int>& names) {
  for (int64_t i = 0; i < rows.size(0); ++i) {
    OpSignature other;
    std::memcpy(&other, rows[i].const_data_ptr(), sizeof other);
    if (other.fits(reference)) continue;
    return concat("rank ",
                  reference_rank,
                  ": ",
                  reference.describe(),
                  "; rank ",
                  names[static_cast<size_t>(i)],
                  ": ",
                  other.describe());
  }
  return "";
}

}  // namespace

void TwoLevelBackend::Run::agree(const OpSignature& signature) const {
  at::Tensor mine = at::empty({static_cast<int64_t>(sizeof signature)}, at::kByte);
  std::memcpy(mine.data_ptr(), &signature, sizeof signature);
  const at::Tensor here = all_gather_in(inside(), mine);
  at::Tensor verdict = text_tensor("");
  if (parts_.leads()) {
    // One message: what this host was called with, and what it found wrong inside.
    const std::string misfit = first_misfit(signature, parts_.rank, here, parts_.neighbours());
    const at::Tensor told = all_gather_in(leaders(), at::cat({mine, text_tensor(misfit)}));
    std::vector<int> leaders;
    for (const auto& host : parts_.hosts) leaders.push_back(host[0]);
    OpSignature first;
    std::memcpy(&first, told[0].const_data_ptr(), sizeof first);
    const int64_t size = mine.numel();
    std::string found =
        first_misfit(first, leaders[0], told.narrow(1, 0, size).contiguous(), leaders);
    for (int64_t h = 0; h < told.size(0) && found.empty(); ++h)
      found = text_from(told[h].narrow(0, size, kVerdictBytes));
    verdict = text_tensor(found);
  }
  broadcast_from(inside(), verdict, 0);
  const std::string found = text_from(verdict);
  if (found.empty()) return;
  throw usage_error(
      {.refused = "ranks disagree on a collective",
       .rule = "all ranks call the same operations in the same order with the same shapes",
       .value = found});
}

void TwoLevelBackend::Run::move() {
  switch (part_.op) {
    case OpType::ALLREDUCE:
    case OpType::ALLREDUCE_COALESCED:
      for (at::Tensor tensor : part_.inputs) reduce(tensor, part_.reduce_op.op_);
      return;
    case OpType::REDUCE:
      return reduce_to_root();
    case OpType::REDUCE_SCATTER:
    case OpType::_REDUCE_SCATTER_BASE:
      return reduce_scatter();
    case OpType::BROADCAST:
      return broadcast();
    case OpType::ALLGATHER:
    case OpType::_ALLGATHER_BASE:
      return all_gather();
    case OpType::GATHER:
      return gather();
    case OpType::SCATTER:
      return scatter();
    case OpType::ALLTOALL:
    case OpType::ALLTOALL_BASE:
      return all_to_all();
    default:  // BARRIER: the agreement was one
      return;
  }
}

/// In place on all ranks.
void TwoLevelBackend::Run::reduce(at::Tensor& tensor, ReduceOp::RedOpType op) const {
  if (tensor.numel() == 0) return;
  const auto summed = op == ReduceOp::AVG ? ReduceOp::SUM : op;
  at::Tensor dense = tensor.contiguous();
  Tensors tensors{dense};
  wait_for(inside(),
           parts_.inside->reduce(tensors, waited<c10d::ReduceOptions>(inside(), 0, summed)));
  if (parts_.leads()) combine_leaders(dense, summed);
  broadcast_from(inside(), dense, 0);
  if (op == ReduceOp::AVG) dense.div_(parts_.world_size);
  if (!dense.is_same(tensor)) tensor.copy_(dense);
}

void TwoLevelBackend::Run::combine_leaders(at::Tensor& tensor, ReduceOp::RedOpType op) const {
  if (gloo_reduces(tensor.scalar_type())) return all_reduce(leaders(), tensor, op);
  const at::Tensor rows = all_gather_in(leaders(), flat_bytes(tensor));
  Tensors values;
  for (const at::Tensor& row : rows.unbind(0))
    values.push_back(row.view(tensor.scalar_type()).view(tensor.sizes()));
  reduce_in_order(tensor, values, op);
}

void TwoLevelBackend::Run::reduce_to_root() const {
  at::Tensor sum = part_.inputs[0].clone();
  reduce(sum, part_.reduce_op.op_);
  if (parts_.rank == part_.root) at::Tensor(part_.inputs[0]).copy_(sum);
}

void TwoLevelBackend::Run::reduce_scatter() const {
  at::Tensor output = part_.outputs[0];
  at::Tensor sum = part_.op == OpType::REDUCE_SCATTER ? at::stack(part_.inputs)
                                                      : part_.inputs[0].clone().contiguous();
  reduce(sum, part_.reduce_op.op_);
  output.copy_(sum.view({parts_.world_size, -1})[parts_.rank].view(output.sizes()));
}

void TwoLevelBackend::Run::broadcast() const {
  const int root_host = parts_.host_of(part_.root);
  const bool at_home = parts_.host == root_host;
  for (const at::Tensor& tensor : part_.inputs) {
    at::Tensor bytes = flat_bytes(tensor);
    if (bytes.numel() == 0) continue;
    if (at_home) broadcast_from(inside(), bytes, parts_.local_rank(part_.root));
    if (parts_.leads()) broadcast_from(leaders(), bytes, root_host);
    if (!at_home) broadcast_from(inside(), bytes, 0);
    if (parts_.rank != part_.root) set_bytes(tensor, bytes);
  }
}

/// [world size, bytes] of the ranks' equally long rows of bytes, by rank.
at::Tensor TwoLevelBackend::Run::gather_all(const at::Tensor& bytes) const {
  size_t most = 0;
  for (const auto& host : parts_.hosts) most = std::max(most, host.size());
  const auto hosts = static_cast<int64_t>(parts_.hosts.size());
  const at::Tensor here = all_gather_in(inside(), bytes);
  at::Tensor blocks = at::zeros({hosts, static_cast<int64_t>(most), bytes.numel()}, at::kByte);
  if (parts_.leads()) {
    at::Tensor block = at::zeros({static_cast<int64_t>(most), bytes.numel()}, at::kByte);
    block.narrow(0, 0, here.size(0)).copy_(here);
    blocks = all_gather_in(leaders(), block);
  }
  broadcast_from(inside(), blocks, 0);
  Tensors rows;
  for (int rank = 0; rank < parts_.world_size; ++rank)
    rows.push_back(blocks[parts_.host_of(rank)][parts_.local_rank(rank)]);
  return at::stack(rows);
}

void TwoLevelBackend::Run::all_gather() const {
  const at::Tensor& input = part_.inputs[0];
  if (part_.op == OpType::ALLGATHER) check_lists();
  if (input.numel() == 0) return;
  const at::Tensor rows = gather_all(flat_bytes(input));
  if (part_.op == OpType::_ALLGATHER_BASE) return set_bytes(part_.outputs[0], rows.view(-1));
  for (int rank = 0; rank < parts_.world_size; ++rank)
    set_bytes(part_.outputs[static_cast<size_t>(rank)], rows[rank]);
}

void TwoLevelBackend::Run::gather() const {
  check_lists();
  Tensors inputs{flat_bytes(part_.inputs[0])};
  if (inputs[0].numel() == 0) return;
  std::vector<Tensors> outputs;
  if (parts_.rank == part_.root) {
    outputs.emplace_back();
    for (const at::Tensor& output : part_.outputs) outputs[0].push_back(flat_bytes(output));
  }
  wait_for(all(),
           parts_.all->gather(outputs, inputs, waited<c10d::GatherOptions>(all(), part_.root)));
  for (size_t r = 0; !outputs.empty() && r < outputs[0].size(); ++r)
    set_bytes(part_.outputs[r], outputs[0][r]);
}

void TwoLevelBackend::Run::scatter() const {
  check_lists();
  Tensors outputs{flat_bytes(part_.outputs[0])};
  if (outputs[0].numel() == 0) return;
  std::vector<Tensors> inputs;
  if (parts_.rank == part_.root) {
    inputs.emplace_back();
    for (const at::Tensor& input : part_.inputs) inputs[0].push_back(flat_bytes(input));
  }
  wait_for(all(),
           parts_.all->scatter(outputs, inputs, waited<c10d::ScatterOptions>(all(), part_.root)));
  set_bytes(part_.outputs[0], outputs[0]);
}

/// All ranks see all sizes, so all refuse alike. [from, to] of bytes.
at::Tensor TwoLevelBackend::Run::check_sizes(const std::vector<int64_t>& gives,
                                             const std::vector<int64_t>& takes) const {
  const auto world = static_cast<int64_t>(parts_.world_size);
  const at::Tensor mine = at::stack({at::tensor(gives, at::kLong), at::tensor(takes, at::kLong)});
  const at::Tensor table = gather_all(flat_bytes(mine)).view(at::kLong).view({world, 2, world});
  const auto sizes = table.accessor<int64_t, 3>();
  for (int64_t from = 0; from < world; ++from) {
    for (int64_t to = 0; to < world; ++to) {
      if (sizes[from][0][to] == sizes[to][1][from]) continue;
      throw unequal_parts(from, sizes[from][0][to], to, sizes[to][1][from]);
    }
  }
  return table.select(1, 0);
}

/// For all-gather, gather and scatter.
void TwoLevelBackend::Run::check_lists() const {
  const auto bytes = [](const at::Tensor& tensor) { return static_cast<int64_t>(tensor.nbytes()); };
  const auto world = static_cast<size_t>(parts_.world_size);
  const auto root = static_cast<size_t>(part_.root);
  const bool is_root = parts_.rank == part_.root;
  std::vector<int64_t> gives(world, 0), takes(world, 0);
  if (part_.op == OpType::SCATTER) {
    takes[root] = bytes(part_.outputs[0]);
    if (is_root) std::transform(part_.inputs.begin(), part_.inputs.end(), gives.begin(), bytes);
  } else {
    const bool to_all = part_.op == OpType::ALLGATHER;
    for (size_t to = 0; to < world; ++to)
      if (to_all || to == root) gives[to] = bytes(part_.inputs[0]);
    if (to_all || is_root)
      std::transform(part_.outputs.begin(), part_.outputs.end(), takes.begin(), bytes);
  }
  const at::Tensor table = check_sizes(gives, takes);
  // One column is enough of an all-gather: what a rank gives is the same for all.
  const auto column = part_.op == OpType::SCATTER ? table[part_.root] : table.select(1, part_.root);
  if (column.eq(column[0]).all().item<bool>()) return;
  throw usage_error(
      {.refused = part_.describe(),
       .rule = "between hosts, the tensors of a list have one size",
       .value =
           concat(column.min().item<int64_t>(), " to ", column.max().item<int64_t>(), " bytes")});
}

void TwoLevelBackend::Run::all_to_all() const {
  const auto world = static_cast<size_t>(parts_.world_size);
  Tensors given, taken;
  for (size_t r = 0; r < world; ++r) {
    if (part_.op == OpType::ALLTOALL) {
      given.push_back(part_.inputs[r]);
      taken.push_back(part_.outputs[r]);
      continue;
    }
    const Rows in = rows_of(part_.inputs[0], part_.input_splits, r, world);
    const Rows out = rows_of(part_.outputs[0], part_.output_splits, r, world);
    given.push_back(part_.inputs[0].narrow(0, in.start, in.count));
    taken.push_back(part_.outputs[0].narrow(0, out.start, out.count));
  }
  Tensors rows;
  std::vector<int64_t> gives, takes;
  for (size_t r = 0; r < world; ++r) {
    rows.push_back(flat_bytes(given[r]));
    gives.push_back(static_cast<int64_t>(given[r].nbytes()));
    takes.push_back(static_cast<int64_t>(taken[r].nbytes()));
  }
  check_sizes(gives, takes);
  at::Tensor input = at::cat(rows);
  int64_t total = 0;
  for (const int64_t size : takes) total += size;
  at::Tensor output = at::empty({total}, at::kByte);
  auto taken_sizes = takes, given_sizes = gives;  // gloo moves them away
  wait_for(all(),
           parts_.all->alltoall_base(
               output, input, taken_sizes, given_sizes, waited<c10d::AllToAllOptions>(all())));
  int64_t from = 0;
  for (size_t r = 0; r < world; ++r) {
    set_bytes(taken[r], output.narrow(0, from, takes[r]));
    from += takes[r];
  }
}

}  // namespace muster::distributed
