// What a pipeline calls of its user's.
#pragma once

#include <cstdint>
#include <functional>

#include "muster/parallel/pipeline/micro_batches.h"

namespace muster::parallel {

/// The loss of a micro-batch // [], from what the last stage made of it and its targets. Called on
/// the last stage's thread.
using PipelineLoss = std::function<at::Tensor(const Tensors& outputs, const Tensors& targets)>;

/// Averages a stage's gradients over its replicas: they are whole. Called on the stage's thread.
using AverageGradients = std::function<void(int64_t stage)>;

}  // namespace muster::parallel
