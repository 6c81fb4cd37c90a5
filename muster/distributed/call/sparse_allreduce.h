// The sum of sparse tensors over ranks, from collectives of dense ones.
#pragma once

#include "muster/distributed/call/posting_backend.h"

namespace muster::distributed {

/// Whether an all-reduce is one of these: some tensor is not dense.
bool is_sparse(const std::vector<at::Tensor>& tensors);

/// Throws a usage error unless it is one COO tensor that is summed or averaged.
void check_sparse_allreduce(const std::vector<at::Tensor>& tensors, const c10d::ReduceOp& op);

/// tensor = sum (or mean) of all ranks' `tensor`, COO, each with its own number of entries;
/// coalesced afterwards, added in rank order. `sequence` is what the Work says. Blocks until it is
/// done: three all-gathers, the first of which tells how large the others are, and whether dtypes
/// and shapes are the same. What other ranks do wrong is the Work's error; another reduction than
/// sum and mean, or several tensors, throws a usage error.
c10::intrusive_ptr<c10d::Work> sum_sparse(PostingBackend& backend,
                                          std::vector<at::Tensor>& tensors,
                                          const c10d::AllreduceOptions& options,
                                          uint64_t sequence);

}  // namespace muster::distributed
