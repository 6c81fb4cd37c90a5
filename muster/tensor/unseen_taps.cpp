#include "muster/tensor/unseen_taps.h"

#include <array>
#include <cstdint>
#include <tuple>

#include <ATen/core/Tensor.h>
#include <ATen/ops/convolution_backward_compositeexplicitautograd_dispatch.h>
#include <torch/library.h>

namespace muster::tensor {
namespace {

/// Of one dimension: where a kernel lies, and on what.
struct Window {
  int64_t positions, input, stride, padding, dilation;
};

/// Whether some position has the tap on the input.
bool is_seen(int64_t tap, const Window& window) {
  for (int64_t at = 0; at < window.positions; ++at) {
    const int64_t on = at * window.stride - window.padding + tap * window.dilation;
    if (on >= 0 && on < window.input) return true;
  }
  return false;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& grad_output,
    const at::Tensor& input,
    const at::Tensor& weight,
    at::OptionalIntArrayRef bias_sizes,
    at::IntArrayRef stride,
    at::IntArrayRef padding,
    at::IntArrayRef dilation,
    bool transposed,
    at::IntArrayRef output_padding,
    int64_t groups,
    std::array<bool, 3> output_mask) {
  auto made = at::compositeexplicitautograd::convolution_backward(grad_output,
                                                                  input,
                                                                  weight,
                                                                  bias_sizes,
                                                                  stride,
                                                                  padding,
                                                                  dilation,
                                                                  transposed,
                                                                  output_padding,
                                                                  groups,
                                                                  output_mask);
  const at::Tensor& gradient = std::get<1>(made);
  if (!gradient.defined() || !at::isReducedFloatingType(gradient.scalar_type())) return made;
  // A transposed convolution goes from its output to its input as a plain one the other way round.
  const at::Tensor& seen = transposed ? grad_output : input;
  const at::Tensor& position = transposed ? input : grad_output;
  for (int64_t dim = 2; dim < weight.dim(); ++dim) {
    const auto of = [&](at::IntArrayRef each) {  // one number for all dimensions, or one for each
      return each.size() == 1 ? each[0] : each[static_cast<size_t>(dim - 2)];
    };
    if (of(stride) == 1) continue;
    const Window window{position.size(dim), seen.size(dim), of(stride), of(padding), of(dilation)};
    for (int64_t tap = 0; tap < weight.size(dim); ++tap)
      if (!is_seen(tap, window)) gradient.select(dim, tap).zero_();
  }
  return made;
}

}  // namespace

void zero_unseen_taps() {
  static const torch::Library library = [] {
    torch::Library of_cpu(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
    of_cpu.impl("convolution_backward", TORCH_FN(convolution_backward));
    return of_cpu;
  }();
}

}  // namespace muster::tensor
