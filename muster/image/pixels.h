// 8-bit images somewhere in memory.
#pragma once

#include <cstdint>
#include <type_traits>

namespace muster::image {

/// Value (channel c, row y, column x) is data[c * channel_stride + y * row_stride + x *
/// pixel_stride]; strides are in bytes. Owns nothing.
template <class Byte>
struct BasicPixels {
  Byte* data = nullptr;
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;
  int64_t channel_stride = 0;
  int64_t row_stride = 0;
  int64_t pixel_stride = 0;

  Byte* at(int64_t channel, int64_t row, int64_t column = 0) const {
    return data + channel * channel_stride + row * row_stride + column * pixel_stride;
  }
  /// Each channel's row is without gaps (tensors [C, H, W], and cut-outs of them).
  bool is_planar() const { return pixel_stride == 1; }
  /// The channels of a pixel lie side by side, and so do pixels (decoded files).
  bool is_interleaved() const { return channel_stride == 1 && pixel_stride == channels; }

  operator BasicPixels<const Byte>() const  // NOLINT: a view that may not write
      requires(!std::is_const_v<Byte>) {
    return {data, channels, height, width, channel_stride, row_stride, pixel_stride};
  }
};

using Pixels = BasicPixels<const uint8_t>;
using MutablePixels = BasicPixels<uint8_t>;

/// [channels, height, width] without gaps.
template <class Byte>
BasicPixels<Byte> planar(Byte* data, int64_t channels, int64_t height, int64_t width) {
  return {data, channels, height, width, height * width, width, 1};
}

/// [height, width, channels] without gaps.
template <class Byte>
BasicPixels<Byte> interleaved(Byte* data, int64_t channels, int64_t height, int64_t width) {
  return {data, channels, height, width, 1, width * channels, channels};
}

/// The part of `height` x `width` pixels whose corner is (top, left). It lies inside.
template <class Byte>
BasicPixels<Byte> part(
    const BasicPixels<Byte>& whole, int64_t top, int64_t left, int64_t height, int64_t width) {
  BasicPixels<Byte> cut = whole;
  cut.data = whole.at(0, top, left);
  cut.height = height;
  cut.width = width;
  return cut;
}

}  // namespace muster::image
