// Batches whose samples are mixed with each other, as torchvision.transforms.v2.MixUp and CutMix.
#pragma once

#include <ATen/core/Tensor.h>

namespace muster::data::functional {

/// Images and targets, each row mixed with the row before it, the first with the last.
struct MixedBatch {
  at::Tensor images;   ///< as they came in
  at::Tensor targets;  ///< [B, classes] of floats that add up to 1
};

/// targets // [B] int64, numbers of `classes`  ->  [B, classes] float32, 1 for the class. Floats
/// [B, classes] stay as they are. Throws a usage error for others.
at::Tensor soft_targets(const at::Tensor& targets, int64_t classes);

/// images // [B, …] of floats, targets // as soft_targets() gives. `share` of each row is its own,
/// 0 … 1. Source: Zhang et al. 2018. Throws a usage error for images of bytes.
MixedBatch mix_up(const at::Tensor& images, const at::Tensor& targets, double share);

/// A rectangle of an image: columns left … right-1 of rows top … bottom-1.
struct CutBox {
  int64_t left = 0;
  int64_t top = 0;
  int64_t right = 0;
  int64_t bottom = 0;
};
/// images // [B, C, H, W]: the box, which lies inside, comes from the other row; a target's own share
/// is that of its pixels. Source: Yun et al. 2019.
MixedBatch cut_mix(const at::Tensor& images, const at::Tensor& targets, const CutBox& box);

}  // namespace muster::data::functional
