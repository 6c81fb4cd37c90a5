// Where sequences of token ids end that a batch has filled up.
#pragma once

#include <ATen/core/Tensor.h>

namespace muster::models {

/// How many ids stand before each row's padding, at least 1: a row of nothing else has one token.
/// ids // [N, T] int64  ->  [N] int64 on the same device. `padding` inside a row counts.
at::Tensor lengths_without(const at::Tensor& ids, int64_t padding);

/// True where a row has a token. lengths // [N] int64  ->  [N, width] bool
at::Tensor mask_of(const at::Tensor& lengths, int64_t width);

}  // namespace muster::models
