#include "muster/parallel/shm_reduce.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include "muster/parallel/contribution.h"

namespace muster::parallel {
namespace {

using c10d::ReduceOp;

// In cache, and below the size from which ATen would wake its threads.
constexpr size_t kBlock = 16384;

constexpr size_t kSumBytes = 8 << 10;  // stays in the first cache while rank after rank is added

/// into = a + b. Four SSE registers at a time, written so that g++ -O2 uses them.
template <class T>
void add(const std::byte* a, const std::byte* b, std::byte* into, size_t bytes) {
  typedef T Wide __attribute__((vector_size(64), aligned(alignof(T)), may_alias));
  size_t i = 0;
  for (; i + sizeof(Wide) <= bytes; i += sizeof(Wide)) {
    *reinterpret_cast<Wide*>(into + i) =
        *reinterpret_cast<const Wide*>(a + i) + *reinterpret_cast<const Wide*>(b + i);
  }
  for (; i < bytes; i += sizeof(T)) {
    T left, right;
    std::memcpy(&left, a + i, sizeof(T));
    std::memcpy(&right, b + i, sizeof(T));
    left += right;
    std::memcpy(into + i, &left, sizeof(T));
  }
}

template <class T>
void sum(std::span<const std::byte* const> values, std::byte* into, size_t count) {
  const size_t bytes = count * sizeof(T);
  if (values.size() == 1) {
    std::memcpy(into, values[0], bytes);
    return;
  }
  for (size_t from = 0; from < bytes; from += kSumBytes) {
    const size_t size = std::min(kSumBytes, bytes - from);
    add<T>(values[0] + from, values[1] + from, into + from, size);
    for (size_t r = 2; r < values.size(); ++r)
      add<T>(into + from, values[r] + from, into + from, size);
  }
}

void reduce_by_aten(ReduceOp::RedOpType op,
                    at::ScalarType dtype,
                    std::span<const std::byte* const> values,
                    std::byte* into,
                    size_t count) {
  const size_t size = c10::elementSize(dtype);
  const auto view = [&](const std::byte* base, size_t from, size_t length) {
    return at::from_blob(const_cast<std::byte*>(base) + from * size,
                         {static_cast<int64_t>(length)},
                         at::TensorOptions().dtype(dtype));
  };
  std::vector<at::Tensor> views(values.size());
  for (size_t from = 0; from < count; from += kBlock) {
    const size_t length = std::min(kBlock, count - from);
    for (size_t r = 0; r < values.size(); ++r) views[r] = view(values[r], from, length);
    at::Tensor target = view(into, from, length);
    reduce_in_order(target, views, op);
  }
}

}  // namespace

void reduce_values(ReduceOp::RedOpType op,
                   at::ScalarType dtype,
                   std::span<const std::byte* const> values,
                   std::byte* into,
                   size_t count) {
  if (count == 0) return;
  if (op == ReduceOp::SUM && dtype == at::kFloat) return sum<float>(values, into, count);
  if (op == ReduceOp::SUM && dtype == at::kDouble) return sum<double>(values, into, count);
  reduce_by_aten(op, dtype, values, into, count);
}

}  // namespace muster::parallel
