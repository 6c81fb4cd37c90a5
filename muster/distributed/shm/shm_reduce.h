// Sums over ranks, straight from the segment's memory.
#pragma once

#include <cstddef>
#include <span>

#include <c10/core/ScalarType.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

namespace muster::distributed {

/// into[k][i] = ((values[0][i] op values[1][i]) op values[2][i]) … for all k; `count` elements
/// each, bit for bit what ATen's own operations give (and therefore the backend `thread`): AVG
/// divides at the end. What is written may be one of the values, and overlaps no value otherwise.
void reduce_values(c10d::ReduceOp::RedOpType op,
                   at::ScalarType dtype,
                   std::span<const std::byte* const> values,
                   std::span<std::byte* const> into,
                   size_t count);

}  // namespace muster::distributed
