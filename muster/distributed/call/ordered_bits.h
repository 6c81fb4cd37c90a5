// Floating-point numbers as whole numbers of the same order.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

namespace muster::distributed {

// Note [NaN over gloo]
// gloo takes a minimum and a maximum by `<`, which is false for NaN: whether a rank's NaN reaches the
// others depends on where it stands in gloo's ring. So it compares whole numbers instead: the bits of
// a float, those below the sign inverted where the sign is set, are a signed number that rises with
// the float. NaN becomes the number that wins: the largest in a maximum, the smallest in a minimum;
// back in a float both are a NaN. float32 and float64 become integers of their own size, so as many
// bytes travel as before; the 16-bit floats go as float32, which holds each of them. What it costs is
// a pass over the tensor on each side (docs/choose-a-strategy.md has the times).

/// Whether a reduction of such tensors by comparisons would lose NaN.
bool compares_floats(at::ScalarType dtype, c10d::ReduceOp::RedOpType op);

/// The numbers that stand for `values` in a MIN or MAX // int32 or int64, contiguous, memory of its own
at::Tensor ordered_bits(const at::Tensor& values, c10d::ReduceOp::RedOpType op);

/// Puts the floats that `bits` stand for into `into`, of any strides.
void put_from_ordered_bits(const at::Tensor& into, const at::Tensor& bits);

}  // namespace muster::distributed
