// Models in bfloat16.
#pragma once

#include <torch/nn/module.h>

#include "muster/models/model.h"

namespace muster::tensor {

/// Parameters and buffers become bfloat16, in place, but for those of BatchNorm, whose running
/// statistics 16 bits cannot hold. The tensors stay the same ones.
void to_bfloat16(torch::nn::Module& module);

/// Scores // [N, classes] float32 for images of any floating dtype, which the model gets in the
/// dtype of its first parameter.
at::Tensor scores_of(models::Classifier& model, const at::Tensor& images);

}  // namespace muster::tensor
