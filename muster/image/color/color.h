// Colours of 8-bit images, with the bytes of torchvision.transforms.v2.functional on tensors.
#pragma once

#include <array>
#include <cstdint>

#include "muster/image/pixels.h"

namespace muster::image {

// Every one fills `out`, of the same sizes and elsewhere in memory; what goes by a table may also
// change an image in its place. Images have 1 or 3 channels, any strides, unless it is said. Floats
// are float32, products and sums fused where LibTorch's AVX2 kernels fuse them, and cut off to bytes
// at the end.

/// What each byte becomes.
using ByteTable = std::array<uint8_t, 256>;

/// clamp(v * factor).
ByteTable brightness_table(double factor);
/// clamp(v * ratio + other * (1 - ratio)).
ByteTable blend_table(double ratio, float other);
ByteTable invert_table();
/// The highest `bits` of each byte, 0 … 8; the others are 0.
ByteTable posterize_table(int64_t bits);
/// From `threshold` on inverted.
ByteTable solarize_table(double threshold);

/// `out` may be `in`; so for autocontrast() and equalize().
void apply_table(const Pixels& in, const MutablePixels& out, const ByteTable& table);

/// floor(0.2989 R + 0.587 G + 0.114 B) of three channels; `out` has one.
void grayscale(const Pixels& in, const MutablePixels& out);

/// The sum of grayscale(), or of the only channel: what contrast is measured against is its mean.
int64_t gray_sum(const Pixels& in);

/// Each channel is blended with the gray: ratio 0 is gray, 1 the image, 2 twice as colourful. One
/// channel stays as it is.
void adjust_saturation(const Pixels& in, const MutablePixels& out, double ratio);

/// Hues are turned by `turn` of a circle, -0.5 … 0.5. One channel stays as it is.
void adjust_hue(const Pixels& in, const MutablePixels& out, double turn);
/// The same of floats 0 … 1 [3, count], bit for bit as torchvision's.
void adjust_hue_of_floats(const float* in, float* out, int64_t count, double turn);

/// Blended with a blurred image: factor 0 is blurred, 1 the image, 2 sharper.
/// Pixels at the border stay as they are.
void adjust_sharpness(const Pixels& in, const MutablePixels& out, double factor);

/// Each channel's least value becomes 0, its greatest 255.
void autocontrast(const Pixels& in, const MutablePixels& out);

/// Each channel's values become equally frequent, as far as that goes. Any number of channels.
void equalize(const Pixels& in, const MutablePixels& out);

}  // namespace muster::image
