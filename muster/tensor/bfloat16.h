// Models in bfloat16.
#pragma once

#include <torch/nn/module.h>

namespace muster::tensor {

/// Parameters and buffers become bfloat16, in place, but for those of BatchNorm, whose running
/// statistics 16 bits cannot hold. The tensors stay the same ones.
void to_bfloat16(torch::nn::Module& module);

}  // namespace muster::tensor
