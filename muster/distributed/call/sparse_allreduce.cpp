#include "muster/distributed/call/sparse_allreduce.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/add.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/call/pending_work.h"

namespace muster::distributed {
namespace {

using c10d::ReduceOp;

/// What a rank has of its dimension 0 from every rank, [world size, ...].
at::Tensor gathered(PostingBackend& backend, at::Tensor part, std::chrono::milliseconds timeout) {
  std::vector<int64_t> sizes = part.sizes().vec();
  sizes.insert(sizes.begin(), backend.getSize());
  at::Tensor all = at::empty(sizes, part.options());
  c10d::AllgatherOptions options;
  options.timeout = timeout;
  backend._allgather_base(all, part, options)->wait();
  return all;
}

/// Dimension `dim` filled up with zeros to `size`.
at::Tensor padded(const at::Tensor& tensor, int64_t dim, int64_t size) {
  std::vector<int64_t> pad(static_cast<size_t>(2 * (tensor.dim() - dim)), 0);
  pad.back() = size - tensor.size(dim);
  return at::constant_pad_nd(tensor, pad).contiguous();
}

/// What a rank says of its tensor before any of it travels: entries, dtype, sparse dimensions, and
/// the sizes, as many as there are, of at most kMostDims.
constexpr int64_t kMostDims = 12, kFacts = 4 + kMostDims;

at::Tensor facts_of(const at::Tensor& tensor) {
  std::vector<int64_t> facts{
      tensor._nnz(), static_cast<int64_t>(tensor.scalar_type()), tensor.sparse_dim(), tensor.dim()};
  for (int64_t dim = 0; dim < std::min(tensor.dim(), kMostDims); ++dim)
    facts.push_back(tensor.size(dim));
  facts.resize(kFacts, 0);
  return at::tensor(facts, at::kLong);
}

std::string describe_facts(const at::Tensor& facts) {
  const auto* values = facts.const_data_ptr<int64_t>();
  const at::IntArrayRef sizes(values + 4, static_cast<size_t>(std::min(values[3], kMostDims)));
  return concat(shape_text(static_cast<at::ScalarType>(values[1]), sizes),
                " with ",
                values[2],
                values[2] == 1 ? " sparse dimension" : " sparse dimensions");
}

/// All ranks see the same facts, and the same fault.
void require_same_shape(const at::Tensor& facts) {
  const at::Tensor first = facts[0];
  for (int64_t rank = 1; rank < facts.size(0); ++rank) {
    if (at::equal(first.narrow(0, 1, kFacts - 1), facts[rank].narrow(0, 1, kFacts - 1))) continue;
    throw usage_error({.refused = "ranks disagree on all_reduce of sparse tensors",
                       .rule = "dtype and shape are the same on all ranks",
                       .value = concat("rank 0 has ",
                                       describe_facts(first),
                                       "; rank ",
                                       rank,
                                       " has ",
                                       describe_facts(facts[rank]))});
  }
}

at::Tensor sum_of_ranks(PostingBackend& backend,
                        const at::Tensor& tensor,
                        std::chrono::milliseconds timeout) {
  const at::Tensor own = tensor.coalesce();
  const at::Tensor indices = own._indices(), values = own._values();
  const at::Tensor facts = gathered(backend, facts_of(own).to(tensor.device()), timeout).cpu();
  require_same_shape(facts);
  const at::Tensor counts = facts.select(1, 0);
  const int64_t most = counts.max().item<int64_t>();
  if (most == 0) return own;
  const at::Tensor all_indices = gathered(backend, padded(indices, 1, most), timeout);
  const at::Tensor all_values = gathered(backend, padded(values, 0, most), timeout);
  at::Tensor sum;
  for (int64_t rank = 0; rank < backend.getSize(); ++rank) {
    const int64_t count = counts[rank].item<int64_t>();
    const at::Tensor part = at::sparse_coo_tensor(all_indices[rank].narrow(1, 0, count),
                                                  all_values[rank].narrow(0, 0, count),
                                                  tensor.sizes())
                                .coalesce();
    sum = sum.defined() ? at::add(sum, part).coalesce() : part;
  }
  return sum;
}

}  // namespace

bool is_sparse(const std::vector<at::Tensor>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const at::Tensor& tensor) {
    return tensor.defined() && tensor.layout() != at::kStrided;
  });
}

void check_sparse_allreduce(const std::vector<at::Tensor>& tensors, const ReduceOp& op) {
  const auto refuse_sparse = [](const char* rule, std::string value) {
    throw usage_error(
        {.refused = "all_reduce of sparse tensors", .rule = rule, .value = std::move(value)});
  };
  if (tensors.size() != 1) refuse_sparse("one tensor per call", concat(tensors.size(), " tensors"));
  if (tensors[0].layout() != at::kSparse)
    refuse_sparse("tensors are dense or sparse COO", concat("layout ", tensors[0].layout()));
  if (tensors[0].is_meta()) refuse_sparse("tensors hold values", "one on the meta device");
  if (op != ReduceOp::SUM && op != ReduceOp::AVG)
    refuse_sparse("they are summed or averaged", reduce_name(op));
}

c10::intrusive_ptr<c10d::Work> sum_sparse(PostingBackend& backend,
                                          std::vector<at::Tensor>& tensors,
                                          const c10d::AllreduceOptions& options,
                                          uint64_t sequence) {
  check_sparse_allreduce(tensors, options.reduceOp);
  const c10::NoGradGuard no_grad;
  auto work = c10::make_intrusive<PendingWork>(
      backend.getRank(), c10d::OpType::ALLREDUCE, sequence, tensors);
  try {
    at::Tensor sum = sum_of_ranks(backend, tensors[0], options.timeout);
    if (options.reduceOp == ReduceOp::AVG) sum.div_(backend.getSize());
    tensors[0].copy_(sum);
    work->complete();
  } catch (...) {
    work->fail(std::current_exception());
  }
  return work;
}

}  // namespace muster::distributed
