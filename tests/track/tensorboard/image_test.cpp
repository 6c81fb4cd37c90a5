#include "muster/track/tensorboard/image.h"

#include <vector>

#include <gtest/gtest.h>
#include <png.h>

#include "muster/base/error.h"

namespace muster::track {
namespace {

std::vector<uint8_t> decode(const std::string& bytes, png_uint_32 format) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  EXPECT_TRUE(png_image_begin_read_from_memory(&png, bytes.data(), bytes.size())) << png.message;
  EXPECT_EQ(png.format, format);
  std::vector<uint8_t> pixels(PNG_IMAGE_SIZE(png));
  EXPECT_TRUE(png_image_finish_read(&png, nullptr, pixels.data(), 0, nullptr)) << png.message;
  return pixels;
}

TEST(EncodePng, KeepsEveryPixelOfGreyColourAndTransparency) {
  for (const auto& [channels, format] :
       {std::pair{1, PNG_FORMAT_GRAY}, {3, PNG_FORMAT_RGB}, {4, PNG_FORMAT_RGBA}}) {
    std::vector<uint8_t> pixels(static_cast<size_t>(3 * 5 * channels));
    for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(37 * i);
    const std::string png = encode_png({3, 5, channels, pixels});
    EXPECT_EQ(decode(png, static_cast<png_uint_32>(format)), pixels);
  }
}

TEST(EncodePng, RefusesAShapeThatIsNoPicture) {
  const std::vector<uint8_t> pixels(12);
  for (const auto& [height, width, channels] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
           {2, 2, 2}, {0, 4, 3}, {-2, -2, 3}, {4, 4, 1}, {1 << 30, 1 << 30, 3}}) {
    EXPECT_THROW(encode_png({height, width, channels, pixels}), Error);
  }
  EXPECT_NO_THROW(encode_png({2, 2, 3, pixels}));
}

}  // namespace
}  // namespace muster::track
