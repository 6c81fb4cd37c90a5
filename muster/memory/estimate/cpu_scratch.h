// What the CPU's convolutions take besides their results.
#pragma once

#include <array>
#include <cstdint>

#include <ATen/core/Tensor.h>

namespace muster::memory {

// Note [Scratch of convolutions]
// oneDNN computes a convolution over channels in blocks of 8 (16 with AVX-512). Operands that lie in
// memory as tensors usually do are copied into that order, channels filled up to whole blocks, and the
// result is copied back:
//   forward:            source', weights', result' | result (weights' and source' are gone by then)
//   gradient of source: result', weights', source' | source
//   gradient of weights: result', source', weights' | weights
//   gradient of source, with a stride: result, weights', source, source, source: channels are not filled up
// where x' is the copy. A forward whose input has fewer channels than a block reads them as they are, and a
// gradient of weights where they are three. In
// channels-last memory nothing is copied but weights. Where the kernel is larger than the source, as in the
// last layers of a deep net on small images, the gradient of weights sums up in four arrays of their size
// per thread instead. What oneDNN does not take (16-bit numbers on
// machines without the instructions, small single images) unfolds its input instead: a column for each
// place of the result. Seen with a counting allocator, in this order and to these sizes, on a machine
// with AVX2; suite G checks whole steps.

/// A convolution, one of tensors on meta.
struct ConvolutionShape {
  const at::Tensor& source;   ///< [N, C, …]
  const at::Tensor& weights;  ///< [K, C / groups, …]
  at::IntArrayRef result;     ///< [N, K, …]
  int64_t groups = 1;
  int64_t stride = 1;  ///< the largest
};

/// Whether this processor is of the kind on which the sizes were seen: AVX2 without AVX-512. On others
/// they are guessed by blocks of other widths, and nobody has compared them.
bool is_cpu_scratch_known();

/// While it lives, convolutions of this thread on meta take and give back what the CPU's would.
class CpuScratch {
 public:
  CpuScratch();
  ~CpuScratch();
  CpuScratch(const CpuScratch&) = delete;
  CpuScratch& operator=(const CpuScratch&) = delete;

  static bool wanted();
};

/// The result, with the scratch on the way to it. // [N, K, …]
at::Tensor with_forward_scratch(const ConvolutionShape& shape);
/// The gradients of source, weights and bias, those of them that the mask asks for.
std::array<at::Tensor, 3> with_backward_scratch(const ConvolutionShape& shape,
                                                const std::array<bool, 3>& mask);

}  // namespace muster::memory
