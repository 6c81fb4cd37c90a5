// Colours, as torchvision.transforms.v2.functional has them on tensors.
#pragma once

#include <ATen/core/Tensor.h>

namespace muster::data::functional {

// Images are [C, H, W] of uint8, or of float32 or float64 in 0 … 1, on the CPU, with 1 or 3 channels
// unless it is said; each throws a usage error for others and for numbers out of range, and returns a
// new tensor. uint8: the bytes of LibTorch's AVX2 kernels, on any processor. Floats: LibTorch's own
// functions in torchvision's order.

/// 1 or 3 equal channels; an image of one channel keeps its values.
at::Tensor grayscale(const at::Tensor& image, int64_t channels = 1);
/// Factors: 0 is black, gray, or without colour; 1 changes nothing; at least 0.
at::Tensor adjust_brightness(const at::Tensor& image, double factor);
at::Tensor adjust_contrast(const at::Tensor& image, double factor);
at::Tensor adjust_saturation(const at::Tensor& image, double factor);
/// Part of the circle of hues, -0.5 … 0.5.
at::Tensor adjust_hue(const at::Tensor& image, double factor);
/// 0 is blurred, 1 changes nothing, above is sharper.
at::Tensor adjust_sharpness(const at::Tensor& image, double factor);
/// Any number of channels; so posterize, solarize and equalize.
at::Tensor invert(const at::Tensor& image);
/// Keeps the highest `bits` of a value's 8, 0 … 8.
at::Tensor posterize(const at::Tensor& image, int64_t bits);
/// Inverts from `threshold` on: at most 255 of bytes, 1 of floats.
at::Tensor solarize(const at::Tensor& image, double threshold);
at::Tensor autocontrast(const at::Tensor& image);
at::Tensor equalize(const at::Tensor& image);

/// Blurs by a Gaussian of `sigma` pixels, cut off at an odd number of `kernel` pixels, at most twice
/// the image less one; borders are mirrored. Any number of channels. The bits are those of LibTorch's
/// convolution on this machine.
at::Tensor gaussian_blur(const at::Tensor& image,
                         int64_t kernel_height,
                         int64_t kernel_width,
                         double sigma);

/// To uint8, float32 or float64; `scale`: 255 becomes 1, and back; else values stay.
at::Tensor to_dtype(const at::Tensor& image, at::ScalarType dtype, bool scale);

}  // namespace muster::data::functional
