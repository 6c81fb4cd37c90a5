// The images that goldens are made of: tests/golden/image/images.py.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/digest.h"
#include "muster/image/pixels.h"

namespace muster::test {

/// [channels, height, width] without gaps.
struct TestImage {
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;
  std::vector<uint8_t> bytes;

  image::Pixels pixels() const { return image::planar(bytes.data(), channels, height, width); }
  image::MutablePixels pixels() { return image::planar(bytes.data(), channels, height, width); }
};

inline TestImage blank_image(int64_t channels, int64_t height, int64_t width) {
  return {channels,
          height,
          width,
          std::vector<uint8_t>(static_cast<size_t>(channels * height * width))};
}

inline TestImage noise_image(int64_t channels, int64_t height, int64_t width, uint32_t seed) {
  TestImage image = blank_image(channels, height, width);
  for (uint8_t& byte : image.bytes) {
    seed = seed * 1664525 + 1013904223;
    byte = static_cast<uint8_t>(seed >> 24);
  }
  return image;
}

inline TestImage slopes_image(int64_t channels, int64_t height, int64_t width, int64_t seed) {
  TestImage image = blank_image(channels, height, width);
  uint8_t* byte = image.bytes.data();
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x)
        *byte++ = static_cast<uint8_t>(x * (5 + seed) + y * 3 + c * 50 + x * y / 7);
    }
  }
  return image;
}

inline TestImage test_image(std::string_view kind,
                            const std::vector<int64_t>& shape,
                            int64_t seed) {
  return kind == "noise" ? noise_image(shape[0], shape[1], shape[2], static_cast<uint32_t>(seed))
                         : slopes_image(shape[0], shape[1], shape[2], seed);
}

/// The same pixels, channels side by side.
inline std::vector<uint8_t> interleaved_bytes(const TestImage& image) {
  std::vector<uint8_t> bytes;
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t x = 0; x < image.width; ++x) {
      for (int64_t c = 0; c < image.channels; ++c) bytes.push_back(*image.pixels().at(c, y, x));
    }
  }
  return bytes;
}

inline std::string digest_text(const void* bytes, size_t count) {
  uint64_t digest = digest_of({static_cast<const char*>(bytes), count});
  std::string text(16, '0');
  for (size_t i = 16; i-- > 0; digest >>= 4) text[i] = "0123456789abcdef"[digest & 15];
  return text;
}
inline std::string digest_text(const TestImage& image) {
  return digest_text(image.bytes.data(), image.bytes.size());
}

}  // namespace muster::test
