// What a classifier answers, in whatever dtype it computes.
#pragma once

#include <ATen/core/Tensor.h>

#include "muster/models/model.h"

namespace muster::train {

/// Scores // [N, classes] float32 for images of any floating dtype, which the model gets in the
/// dtype of its first parameter.
at::Tensor scores_of(models::Classifier& model, const at::Tensor& images);

}  // namespace muster::train
