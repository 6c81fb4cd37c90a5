// Tensors as muster::image sees them.
#pragma once

#include <string_view>

#include <ATen/core/Tensor.h>

#include "muster/image/pixels.h"

namespace muster::data::functional {

/// A view of an image's bytes, and what keeps them.
struct HeldPixels {
  at::Tensor memory;
  image::Pixels pixels;
};

/// Throws a usage error that names `what`, unless it is an image [C, H, W] on the CPU, with pixels, of
/// uint8, float32 or float64.
void check_image(std::string_view what, const at::Tensor& image);

/// Of a uint8 image [C, H, W]: its own memory where rows of a channel, or the channels of pixels, are
/// without gaps, else a copy's.
HeldPixels pixels_of(const at::Tensor& image);

/// Of a new tensor without gaps.
image::MutablePixels pixels_to_fill(at::Tensor& image);

/// A new uint8 image.
at::Tensor new_bytes(int64_t channels, int64_t height, int64_t width);

}  // namespace muster::data::functional
