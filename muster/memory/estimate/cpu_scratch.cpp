#include "muster/memory/estimate/cpu_scratch.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

namespace muster::memory {
namespace {

using at::Tensor;

thread_local bool wants_scratch = false;

/// Channels of a block.
int64_t block_width() {
  static const int64_t width =
      at::get_cpu_capability().find("AVX512") == std::string::npos ? 8 : 16;
  return width;
}

int64_t in_blocks(int64_t channels) {
  return (channels + block_width() - 1) / block_width() * block_width();
}

Tensor elements(int64_t count, const Tensor& like) { return at::empty({count}, like.options()); }

int64_t count_of(at::IntArrayRef sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return count;
}

/// Of [N, C, …] with whole blocks of channels.
Tensor blocked(at::IntArrayRef sizes, const Tensor& like) {
  return elements(count_of(sizes) / sizes[1] * in_blocks(sizes[1]), like);
}

/// Of [K, C / groups, …].
Tensor blocked_weights(const ConvolutionShape& shape) {
  const Tensor& weights = shape.weights;
  if (shape.groups > 1) return elements(weights.numel(), weights);
  const int64_t places = weights.numel() / (weights.size(0) * weights.size(1));
  return elements(in_blocks(weights.size(0)) * in_blocks(weights.size(1)) * places, weights);
}

/// The weights as a forward reads them: of a few channels, in no blocks of those.
Tensor forward_weights(const ConvolutionShape& shape) {
  if (shape.source.size(1) >= block_width()) return blocked_weights(shape);
  return elements(shape.weights.numel() / shape.weights.size(0) * in_blocks(shape.weights.size(0)),
                  shape.weights);
}

Tensor plain_result(const ConvolutionShape& shape) {
  return at::empty(shape.result, shape.source.options(), shape.source.suggest_memory_format());
}

Tensor plain_like(const Tensor& tensor) {
  return at::empty_like(tensor, tensor.suggest_memory_format());
}

bool is_channels_last(const ConvolutionShape& shape) {
  return shape.source.suggest_memory_format() != c10::MemoryFormat::Contiguous ||
         shape.weights.suggest_memory_format() != c10::MemoryFormat::Contiguous;
}

bool is_kernel_larger(const ConvolutionShape& shape) {
  for (int64_t dim = 2; dim < shape.weights.dim(); ++dim)
    if (shape.weights.size(dim) > shape.source.size(dim)) return true;
  return false;
}

bool is_one_by_one(const ConvolutionShape& shape) {
  return shape.weights.numel() == shape.weights.size(0) * shape.weights.size(1);
}

bool is_of_colours(const ConvolutionShape& shape) {
  constexpr int64_t kColours = 3;
  return shape.source.size(1) == kColours && !is_one_by_one(shape);
}

bool copies_source_forward(const ConvolutionShape& shape) {
  return shape.source.size(1) >= block_width() || (is_one_by_one(shape) && shape.stride > 1);
}

/// As LibTorch chooses.
bool is_for_onednn(const ConvolutionShape& shape) {
  constexpr int64_t kSmallImage = 20480, kSmallKernel = 3;
  if (shape.source.scalar_type() == at::kDouble) return false;
  if (shape.source.scalar_type() != at::kFloat) return block_width() > 8;
  return shape.groups > 1 || shape.source.size(0) > 1 || shape.source.numel() > kSmallImage ||
         (shape.weights.size(-1) > kSmallKernel && shape.weights.dim() > 3 &&
          shape.weights.size(-2) > kSmallKernel);
}

/// A column for each place of the result.
Tensor columns(const ConvolutionShape& shape) {
  const int64_t column = shape.weights.numel() / shape.weights.size(0);
  return elements(is_one_by_one(shape) ? 0 : column * count_of(shape.result) / shape.result[1],
                  shape.source);
}

Tensor source_gradient(const ConvolutionShape& shape) {
  const at::IntArrayRef sizes = shape.source.sizes();
  const bool has_steps = shape.stride > 1;
  Tensor copied, once_more;
  {
    constexpr int64_t kTiles = 25 * 1024;  // about what was seen: 60 to 160 KiB
    const Tensor result = has_steps ? elements(count_of(shape.result), shape.source)
                                    : blocked(shape.result, shape.source);
    const Tensor weights = blocked_weights(shape);
    copied = has_steps ? elements(count_of(sizes), shape.source) : blocked(sizes, shape.source);
    const Tensor tiles = has_steps ? elements(kTiles, shape.source) : Tensor();
  }
  if (has_steps) once_more = elements(count_of(sizes), shape.source);
  return plain_like(shape.source);
}

}  // namespace

bool is_cpu_scratch_known() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("avx512f") == 0;
#else
  return false;
#endif
}

CpuScratch::CpuScratch() { wants_scratch = true; }
CpuScratch::~CpuScratch() { wants_scratch = false; }
bool CpuScratch::wanted() { return wants_scratch; }

at::Tensor with_forward_scratch(const ConvolutionShape& shape) {
  if (!is_for_onednn(shape)) {
    const Tensor unfolded = columns(shape);
    return plain_result(shape);
  }
  if (is_channels_last(shape)) {
    Tensor result = plain_result(shape);
    const Tensor weights = blocked_weights(shape);
    return result;
  }
  Tensor copied;
  {
    const Tensor source =
        copies_source_forward(shape) ? blocked(shape.source.sizes(), shape.source) : Tensor();
    const Tensor weights = forward_weights(shape);
    copied = blocked(shape.result, shape.source);
  }
  return plain_result(shape);
}

std::array<Tensor, 3> with_backward_scratch(const ConvolutionShape& shape,
                                            const std::array<bool, 3>& mask) {
  const bool copies = is_for_onednn(shape) && !is_channels_last(shape);
  std::array<Tensor, 3> gradients;
  if (mask[0]) gradients[0] = copies ? source_gradient(shape) : plain_like(shape.source);
  if (!mask[1] && !mask[2]) return gradients;
  Tensor weights;
  if (copies && is_kernel_larger(shape)) {
    constexpr int64_t kPerThread = 4;
    weights = blocked_weights(shape);
    const Tensor sums = elements(kPerThread * at::get_num_threads() * weights.numel(), weights);
  } else if (copies) {
    const Tensor result = blocked(shape.result, shape.source);
    const Tensor source =
        is_of_colours(shape) ? Tensor() : blocked(shape.source.sizes(), shape.source);
    weights = blocked_weights(shape);
  }
  if (mask[2]) gradients[2] = elements(shape.weights.size(0), shape.source);
  if (mask[1]) gradients[1] = plain_like(shape.weights);
  if (!is_for_onednn(shape)) const Tensor unfolded = columns(shape);
  return gradients;
}

}  // namespace muster::memory
