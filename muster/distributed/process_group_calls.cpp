// What ranks do together: each call as c10d has it, checked first.
#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/call/contribution.h"
#include "muster/distributed/call/sparse_allreduce.h"
#include "muster/distributed/group_checks.h"
#include "muster/distributed/group_parts.h"
#include "muster/distributed/meet/timeout.h"
#include "muster/distributed/single_tensor.h"
#include "muster/distributed/text_calls.h"

namespace muster::distributed {
namespace {

using Tensors = std::vector<at::Tensor>;
using Counts = std::vector<int64_t>;

/// With its values in its own memory, and nothing else. gloo takes what lies in the gaps of a
/// tensor for elements; of a conjugated view, which is complex numbers yet to be conjugated, c10d's
/// dispatcher would hand on a copy that nobody copies back.
at::Tensor plain(const at::Tensor& tensor) {
  return tensor.resolve_conj().resolve_neg().contiguous();
}

/// A row for each rank.
void check_rows(const std::string& call, const at::Tensor& all, int world_size) {
  if (all.dim() > 0 && all.size(0) == world_size) return;
  throw usage_error({.refused = call,
                     .rule = concat("a row for each of the ", world_size, " ranks"),
                     .value = shape_text(all.scalar_type(), all.sizes())});
}

std::vector<int64_t> row_shape(const at::Tensor& all) { return all.sizes().slice(1).vec(); }

at::Tensor rows_like(const at::Tensor& row, int64_t rows) {
  std::vector<int64_t> sizes = row.sizes().vec();
  sizes.insert(sizes.begin(), rows);
  return at::empty(sizes, row.options());
}

/// Of a call that works in place, on `moved`: `tensor` itself, or a plain copy of it.
Work in_place(c10::intrusive_ptr<c10d::Work> work, const at::Tensor& tensor, at::Tensor moved) {
  if (moved.is_same(tensor)) return {std::move(work), tensor};
  return {std::move(work), tensor, [moved = std::move(moved)](at::Tensor& result) {
            result.copy_(moved);
          }};
}

/// The tensors that the call reads stay alive until somebody has waited for it.
Work keeping(c10::intrusive_ptr<c10d::Work> work, at::Tensor result, Tensors read) {
  return {std::move(work), std::move(result), [read = std::move(read)](at::Tensor&) {}};
}

template <class Options>
Options call_options(bool async) {
  Options options;
  options.asyncOp = async;  // see Note [Who works]
  return options;
}

/// c10d's own groups under the calls of ProcessGroup, waited for at once or not.
struct Caller {
  c10d::ProcessGroup& group;
  bool async;

  Work all_reduce(const at::Tensor& tensor, c10d::ReduceOp op) const {
    const bool sparse = is_sparse({tensor});
    if (sparse)
      check_sparse_allreduce({tensor}, op);
    else
      check_movable(group, "all_reduce", tensor, /*written=*/true);
    auto options = call_options<c10d::AllreduceOptions>(async);
    options.reduceOp = std::move(op);
    Tensors tensors{sparse ? tensor : plain(tensor)};
    auto work = group.allreduce(tensors, options);
    return in_place(std::move(work), tensor, tensors[0]);
  }

  Work reduce(const at::Tensor& tensor, int root, c10d::ReduceOp op) const {
    check_movable(group, "reduce", tensor, /*written=*/true);
    auto options = call_options<c10d::ReduceOptions>(async);
    options.reduceOp = std::move(op);
    options.rootRank = root;
    Tensors tensors{plain(tensor)};
    auto work = group.reduce(tensors, options);
    return in_place(std::move(work), tensor, tensors[0]);
  }

  Work broadcast(const at::Tensor& tensor, int root) const {
    check_movable(group, "broadcast", tensor, /*written=*/true);
    auto options = call_options<c10d::BroadcastOptions>(async);
    options.rootRank = root;
    Tensors tensors{plain(tensor)};
    auto work = group.broadcast(tensors, options);
    return in_place(std::move(work), tensor, tensors[0]);
  }

  Work all_gather(const at::Tensor& tensor, std::chrono::milliseconds timeout = {}) const {
    check_movable(group, "all_gather", tensor, /*written=*/false);
    const at::Tensor all = rows_like(tensor, group.getSize());
    Tensors inputs{plain(tensor)};
    std::vector<Tensors> outputs{all.unbind(0)};
    auto options = call_options<c10d::AllgatherOptions>(async);
    if (timeout.count() != 0)
      options.timeout = bounded_timeout(timeout, "the timeout of all_gather");
    auto work = group.allgather(outputs, inputs, options);
    return keeping(std::move(work), all, std::move(inputs));
  }

  Work gather(const at::Tensor& tensor, int root) const {
    check_movable(group, "gather", tensor, /*written=*/false);
    const bool is_root = group.getRank() == root;
    const at::Tensor all = is_root ? rows_like(tensor, group.getSize()) : at::Tensor();
    Tensors inputs{plain(tensor)};
    std::vector<Tensors> outputs;
    if (is_root) outputs.push_back(all.unbind(0));
    auto options = call_options<c10d::GatherOptions>(async);
    options.rootRank = root;
    auto work = group.gather(outputs, inputs, options);
    return keeping(std::move(work), all, std::move(inputs));
  }

  Work scatter(const at::Tensor& tensor, const at::Tensor& all, int root) const {
    check_movable(group, "scatter", tensor, /*written=*/true);
    const bool is_root = group.getRank() == root;
    if (is_root != all.defined()) {
      throw usage_error({.refused = "scatter",
                         .rule = "the root gives a row for each rank, the others give none",
                         .value = concat("rank ",
                                         group.getRank(),
                                         all.defined() ? " gives some" : " gives none",
                                         ", the root is rank ",
                                         root)});
    }
    std::vector<Tensors> inputs;
    if (is_root) {
      check_movable(group, "scatter", all, /*written=*/false);
      check_rows("scatter", all, group.getSize());
      inputs.push_back(plain(all).unbind(0));
    }
    auto options = call_options<c10d::ScatterOptions>(async);
    options.rootRank = root;
    Tensors outputs{plain(tensor)};
    auto work = group.scatter(outputs, inputs, options);
    return in_place(std::move(work), tensor, outputs[0]);
  }

  Work reduce_scatter(const at::Tensor& all, c10d::ReduceOp op) const {
    check_movable(group, "reduce_scatter", all, /*written=*/false);
    check_rows("reduce_scatter", all, group.getSize());
    auto options = call_options<c10d::ReduceScatterOptions>(async);
    options.reduceOp = std::move(op);
    const at::Tensor output = at::empty(row_shape(all), all.options());
    const at::Tensor input = plain(all).view(-1);  // as gloo wants them
    auto work = detail::reduce_scatter_single(group, output.view(-1), input, options);
    return keeping(std::move(work), output, {input});
  }

  Work all_to_all(const at::Tensor& all) const {
    check_movable(group, "all_to_all", all, /*written=*/false);
    check_rows("all_to_all", all, group.getSize());
    return exchange(all, {}, {});
  }

  /// Without counts: as many rows for each.
  Work exchange(const at::Tensor& rows, Counts give, Counts take) const {
    std::vector<int64_t> sizes = rows.sizes().vec();
    if (!take.empty()) sizes[0] = std::accumulate(take.begin(), take.end(), int64_t{0});
    const at::Tensor input = plain(rows), output = at::empty(sizes, rows.options());
    auto work = detail::all_to_all_single(group,
                                          output,
                                          input,
                                          std::move(take),
                                          std::move(give),
                                          call_options<c10d::AllToAllOptions>(async));
    return keeping(std::move(work), output, {input});
  }

  /// Not by c10d's own barrier: before LibTorch 2.15 the tensor that it is dispatched by is one for
  /// all threads, and is freed twice where thread ranks meet.
  Work barrier() const {
    const bool is_nccl = group.getBackendType() == c10d::ProcessGroup::BackendType::NCCL;
    c10d::Backend& backend = *group.getBackend(is_nccl ? at::kCUDA : at::kCPU);
    return {backend.barrier(call_options<c10d::BarrierOptions>(async)), at::Tensor()};
  }
};

/// As bytes on the group's device; one more byte than there are, so that there is one.
at::Tensor bytes_of(const std::string& text, int64_t size, at::Device device) {
  at::Tensor bytes = at::zeros({std::max<int64_t>(1, size)}, at::kByte);
  std::copy(text.begin(), text.end(), bytes.data_ptr<uint8_t>());
  return bytes.to(device);
}

std::string_view call_name(int64_t call) {
  constexpr std::array<std::string_view, 5> kNames{
      "all_gather_text", "gather_text", "split", "subgroup", "a device mesh"};
  return kNames.at(static_cast<size_t>(call));
}

/// The number of the call stands above the length, in the same message.
constexpr int kCallShift = 56;

/// [world_size] on the CPU. Collective.
at::Tensor lengths_on_ranks(TextCall call,
                            const ProcessGroup& group,
                            const std::string& text,
                            std::chrono::milliseconds timeout = {}) {
  const int64_t mine = static_cast<int64_t>(text.size()) | int64_t{static_cast<uint8_t>(call)}
                                                               << kCallShift;
  const at::Tensor all =
      group.all_gather(at::full({}, mine, at::kLong).to(group.device()), timeout).cpu();
  auto* const lengths = all.mutable_data_ptr<int64_t>();
  const int64_t first = lengths[0] >> kCallShift;
  for (int64_t rank = 0; rank < all.size(0); ++rank) {
    const int64_t other = lengths[rank] >> kCallShift;
    lengths[rank] &= (int64_t{1} << kCallShift) - 1;
    if (other == first) continue;
    throw usage_error(
        {.refused = "calls of a group",
         .rule = "all of its ranks make the same calls in the same order",
         .value = concat("rank 0: ", call_name(first), "; rank ", rank, ": ", call_name(other))});
  }
  return all;
}

std::vector<std::string> texts_of(const at::Tensor& all, const at::Tensor& lengths) {
  std::vector<std::string> texts;
  for (int64_t rank = 0; rank < lengths.size(0); ++rank) {
    const uint8_t* row = all[rank].const_data_ptr<uint8_t>();
    texts.emplace_back(row, row + lengths[rank].item<int64_t>());
  }
  return texts;
}

}  // namespace

void check_movable(const c10d::ProcessGroup& group,
                   const std::string& call,
                   const at::Tensor& tensor,
                   bool written) {
  check_tensor(call, tensor);
  const auto shape = [&] { return shape_text(tensor.scalar_type(), tensor.sizes()); };
  const std::vector<at::Device> kinds = group.getDeviceTypes();
  const auto is_kind = [&](at::Device device) { return device.type() == tensor.device().type(); };
  if (std::none_of(kinds.begin(), kinds.end(), is_kind)) {
    std::vector<std::string> names;
    for (const at::Device kind : kinds) names.push_back(c10::DeviceTypeName(kind.type(), true));
    throw usage_error(
        {.refused = call,
         .rule = concat("this group moves tensors of ", join(names, " and ")),
         .value = concat(shape(), " on ", tensor.device()),
         .hint = "move the tensor, or name a backend for its kind of device (cpu:A,cuda:B)"});
  }
  if (written && at::has_internal_overlap(tensor) == at::MemOverlap::Yes)
    throw usage_error({.refused = call,
                       .rule = "each element of a result has a place of its own",
                       .value = concat(shape(), " of strides ", tensor.strides()),
                       .hint = "an expanded tensor: clone() it first"});
}

void ProcessGroup::all_reduce(at::Tensor tensor, c10d::ReduceOp op) const {
  Caller{*state_->group, false}.all_reduce(tensor, std::move(op)).wait();
}
Work ProcessGroup::all_reduce_async(at::Tensor tensor, c10d::ReduceOp op) const {
  return Caller{*state_->group, true}.all_reduce(tensor, std::move(op));
}

void ProcessGroup::reduce(at::Tensor tensor, int root, c10d::ReduceOp op) const {
  Caller{*state_->group, false}.reduce(tensor, root, std::move(op)).wait();
}
Work ProcessGroup::reduce_async(at::Tensor tensor, int root, c10d::ReduceOp op) const {
  return Caller{*state_->group, true}.reduce(tensor, root, std::move(op));
}

void ProcessGroup::broadcast(at::Tensor tensor, int root) const {
  Caller{*state_->group, false}.broadcast(tensor, root).wait();
}
Work ProcessGroup::broadcast_async(at::Tensor tensor, int root) const {
  return Caller{*state_->group, true}.broadcast(tensor, root);
}

at::Tensor ProcessGroup::all_gather(const at::Tensor& tensor,
                                    std::chrono::milliseconds timeout) const {
  return Caller{*state_->group, false}.all_gather(tensor, timeout).wait();
}
Work ProcessGroup::all_gather_async(const at::Tensor& tensor) const {
  return Caller{*state_->group, true}.all_gather(tensor);
}

at::Tensor ProcessGroup::gather(const at::Tensor& tensor, int root) const {
  return Caller{*state_->group, false}.gather(tensor, root).wait();
}
Work ProcessGroup::gather_async(const at::Tensor& tensor, int root) const {
  return Caller{*state_->group, true}.gather(tensor, root);
}

void ProcessGroup::scatter(at::Tensor tensor, const at::Tensor& all, int root) const {
  Caller{*state_->group, false}.scatter(tensor, all, root).wait();
}
Work ProcessGroup::scatter_async(at::Tensor tensor, const at::Tensor& all, int root) const {
  return Caller{*state_->group, true}.scatter(tensor, all, root);
}

at::Tensor ProcessGroup::reduce_scatter(const at::Tensor& all, c10d::ReduceOp op) const {
  return Caller{*state_->group, false}.reduce_scatter(all, std::move(op)).wait();
}
Work ProcessGroup::reduce_scatter_async(const at::Tensor& all, c10d::ReduceOp op) const {
  return Caller{*state_->group, true}.reduce_scatter(all, std::move(op));
}

at::Tensor ProcessGroup::all_to_all(const at::Tensor& all) const {
  return Caller{*state_->group, false}.all_to_all(all).wait();
}
Work ProcessGroup::all_to_all_async(const at::Tensor& all) const {
  return Caller{*state_->group, true}.all_to_all(all);
}

at::Tensor ProcessGroup::all_to_all(const at::Tensor& rows,
                                    const std::vector<int64_t>& counts) const {
  check_movable(*state_->group, "all_to_all", rows, /*written=*/false);
  const bool fits = static_cast<int64_t>(counts.size()) == world_size() && rows.dim() > 0 &&
                    std::all_of(counts.begin(), counts.end(), [](int64_t n) { return n >= 0; }) &&
                    std::accumulate(counts.begin(), counts.end(), int64_t{0}) == rows.size(0);
  if (!fits) {
    throw usage_error(
        {.refused = "all_to_all",
         .rule = concat("a count for each of the ",
                        world_size(),
                        " ranks, and together as many as there are rows"),
         .value = concat(
             c10::IntArrayRef(counts), " for ", shape_text(rows.scalar_type(), rows.sizes()))});
  }
  const at::Tensor give = at::tensor(counts, at::kLong).to(device());
  const at::Tensor taken = all_to_all(give).cpu();
  const int64_t* take = taken.const_data_ptr<int64_t>();
  return Caller{*state_->group, false}.exchange(rows, counts, {take, take + world_size()}).wait();
}

void ProcessGroup::barrier() const { Caller{*state_->group, false}.barrier().wait(); }
Work ProcessGroup::barrier_async() const { return Caller{*state_->group, true}.barrier(); }

std::vector<std::string> gather_texts_for(TextCall call,
                                          const ProcessGroup& group,
                                          const std::string& text,
                                          std::chrono::milliseconds timeout) {
  const at::Tensor lengths = lengths_on_ranks(call, group, text, timeout);
  const at::Tensor bytes = bytes_of(text, lengths.max().item<int64_t>(), group.device());
  return texts_of(group.all_gather(bytes, timeout).cpu(), lengths);
}

std::vector<std::string> ProcessGroup::all_gather_text(const std::string& text,
                                                       std::chrono::milliseconds timeout) const {
  return gather_texts_for(TextCall::kAllGatherText, *this, text, timeout);
}

std::vector<std::string> ProcessGroup::gather_text(const std::string& text, int root) const {
  const at::Tensor lengths = lengths_on_ranks(TextCall::kGatherText, *this, text);
  const int64_t longest = lengths.max().item<int64_t>();
  const at::Tensor all = gather(bytes_of(text, longest, device()), root);
  return all.defined() ? texts_of(all.cpu(), lengths) : std::vector<std::string>();
}

std::string ProcessGroup::broadcast_text(const std::string& text, int root) const {
  const bool is_root = rank() == root;
  const auto length = static_cast<int64_t>(is_root ? text.size() : 0);
  const at::Tensor size = at::full({}, length, at::kLong).to(device());
  broadcast(size, root);
  const auto bytes = size.cpu().item<int64_t>();
  const at::Tensor all = bytes_of(is_root ? text : "", bytes, device());
  broadcast(all, root);
  const at::Tensor here = all.cpu();
  const uint8_t* first = here.const_data_ptr<uint8_t>();
  return {first, first + bytes};
}

}  // namespace muster::distributed
