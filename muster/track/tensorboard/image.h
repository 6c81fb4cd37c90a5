// A picture as it goes into a TensorBoard event.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace muster::track {

/// [height, width, channels] uint8, rows from the top; the pixels belong to the caller.
struct Image {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 3;  ///< 1 grey, 3 RGB, 4 RGBA (not premultiplied)
  std::span<const uint8_t> pixels;
};

/// The bytes of a PNG file. Throws a usage error for an empty picture, another number of channels,
/// a side over 65535, or a span of the wrong size. Any thread.
std::string encode_png(const Image& image);

}  // namespace muster::track
