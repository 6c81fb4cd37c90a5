// Gradients of convolution weights that no input reaches.
#pragma once

namespace muster::tensor {

// Note [Unseen taps]
// Where an image is smaller than the kernel, some of the kernel's taps lie on padding alone, whatever the
// position: their gradient is 0. oneDNN leaves it unwritten where a convolution on the CPU in bfloat16
// (or half) has a stride above 1: what the memory held before, up to 1e38, becomes weights, and two
// alike runs differ. ResNet's last stage, at images of 16 x 16, is such a place. Seen with LibTorch 2.15
// on AVX-512 with bf16 instructions; PyTorch has the same.

/// From here on aten::convolution_backward on the CPU gives these taps a gradient of 0 in 16-bit
/// precision; else it is what it was. For the process, once; any thread. train::fit() calls it.
void zero_unseen_taps();

}  // namespace muster::tensor
