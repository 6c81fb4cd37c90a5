#include "muster/models/layers/padding.h"

#include <ATen/ops/arange.h>

namespace muster::models {

at::Tensor lengths_without(const at::Tensor& ids, int64_t padding) {
  const at::Tensor ends = at::arange(1, ids.size(1) + 1, ids.options());
  return ids.ne(padding).mul(ends).amax(1).clamp_min(1);
}

at::Tensor mask_of(const at::Tensor& lengths, int64_t width) {
  return at::arange(width, lengths.options()).unsqueeze(0).lt(lengths.unsqueeze(1));
}

}  // namespace muster::models
