#include "muster/distributed/shm/shm_reduce.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include "muster/distributed/call/contribution.h"

namespace muster::distributed {
namespace {

using c10d::ReduceOp;
using Values = std::span<const std::byte* const>;
using Targets = std::span<std::byte* const>;

// Elements. In cache, and below the size from which ATen would wake its threads.
constexpr size_t kBlock = 16384;

/// Bytes that are summed at once. The caches' speed bounds the sum: wider registers gain nothing.
constexpr size_t kVector = 16, kVectors = 4, kStride = kVector * kVectors;

/// All of the stride is read before any of it is written: a target may be a value.
template <class T, bool IsMean>
void sum_stride(Values values, Targets into, size_t at) {
  typedef T Vector __attribute__((vector_size(kVector), aligned(alignof(T)), may_alias));
  Vector sums[kVectors];
  const auto* first = reinterpret_cast<const Vector*>(values[0] + at);
#pragma GCC unroll 4
  for (size_t v = 0; v < kVectors; ++v) sums[v] = first[v];
  for (size_t r = 1; r < values.size(); ++r) {
    const auto* next = reinterpret_cast<const Vector*>(values[r] + at);
#pragma GCC unroll 4
    for (size_t v = 0; v < kVectors; ++v) sums[v] = sums[v] + next[v];
  }
  if constexpr (IsMean) {
    const auto divisor = static_cast<T>(values.size());
#pragma GCC unroll 4
    for (size_t v = 0; v < kVectors; ++v) sums[v] = sums[v] / divisor;
  }
  for (std::byte* target : into) {
    auto* to = reinterpret_cast<Vector*>(target + at);
#pragma GCC unroll 4
    for (size_t v = 0; v < kVectors; ++v) to[v] = sums[v];
  }
}

/// IsMean: divided by their number at the end.
template <class T, bool IsMean = false>
void sum(Values values, Targets into, size_t count) {
  const size_t bytes = count * sizeof(T);
  size_t at = 0;
  for (; at + kStride <= bytes; at += kStride) sum_stride<T, IsMean>(values, into, at);
  for (; at < bytes; at += sizeof(T)) {
    T sum, next;
    std::memcpy(&sum, values[0] + at, sizeof(T));
    for (size_t r = 1; r < values.size(); ++r) {
      std::memcpy(&next, values[r] + at, sizeof(T));
      sum += next;
    }
    if constexpr (IsMean) sum /= static_cast<T>(values.size());
    for (std::byte* target : into) std::memcpy(target + at, &sum, sizeof(T));
  }
}

void reduce_by_aten(
    ReduceOp::RedOpType op, at::ScalarType dtype, Values values, Targets into, size_t count) {
  const size_t size = c10::elementSize(dtype);
  std::vector<at::Tensor> views(values.size());
  at::Tensor result = at::empty({static_cast<int64_t>(std::min(kBlock, count))}, dtype);
  for (size_t from = 0; from < count; from += kBlock) {
    const auto length = static_cast<int64_t>(std::min(kBlock, count - from));
    for (size_t r = 0; r < values.size(); ++r) {
      auto* start = const_cast<std::byte*>(values[r]) + from * size;
      views[r] = at::from_blob(start, {length}, at::TensorOptions().dtype(dtype));
    }
    at::Tensor block = result.narrow(0, 0, length);
    reduce_in_order(block, views, op);
    for (std::byte* target : into)
      std::memcpy(target + from * size, result.data_ptr(), block.nbytes());
  }
}

}  // namespace

void reduce_values(
    ReduceOp::RedOpType op, at::ScalarType dtype, Values values, Targets into, size_t count) {
  if (count == 0 || into.empty()) return;
  if (op == ReduceOp::SUM && dtype == at::kFloat) return sum<float>(values, into, count);
  if (op == ReduceOp::SUM && dtype == at::kDouble) return sum<double>(values, into, count);
  if (op == ReduceOp::AVG && dtype == at::kFloat) return sum<float, true>(values, into, count);
  if (op == ReduceOp::AVG && dtype == at::kDouble) return sum<double, true>(values, into, count);
  reduce_by_aten(op, dtype, values, into, count);
}

}  // namespace muster::distributed
