// JPEG files decoded at a part of their size: as libjpeg alone does it, and near to the whole image's means.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/formats/image/image.h"

#include "tests/formats/image/jpeg_files.h"
#include "tests/support/paths.h"

namespace muster::formats {
namespace {

using test::JpegForm;
using JpegBytes = std::vector<uint8_t>;

/// What libjpeg's defaults make of it at 1/denominator. // [height, width, 3]
struct PlainImage {
  int64_t height = 0, width = 0;
  JpegBytes pixels;
};

PlainImage decoded_by_libjpeg(const JpegBytes& file, unsigned denominator) {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);  // ends the program: the files are the test's own
  errors.emit_message = [](j_common_ptr, int) {};
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, file.data(), file.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = JCS_RGB;
  info.scale_num = 1;
  info.scale_denom = denominator;
  jpeg_start_decompress(&info);
  PlainImage out{.height = info.output_height, .width = info.output_width};
  const auto row_bytes = static_cast<size_t>(out.width) * 3;
  out.pixels.resize(static_cast<size_t>(out.height) * row_bytes);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = out.pixels.data() + info.output_scanline * row_bytes;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return out;
}

// Pillow 11, JpegImageFile.draft: the greatest of 8, 4, 2, 1 that is at most min(width // w, height // h).
TEST(JpegShrink, IsThatOfPillowsDraft) {
  for (int64_t height = 1; height < 130; height += 7) {
    for (int64_t width = 1; width < 130; width += 5) {
      for (int64_t least = 1; least < 40; ++least) {
        const int64_t most = std::min(width / least, height / least);
        int64_t expected = 8;
        while (expected > 1 && most < expected) expected /= 2;
        ASSERT_EQ(jpeg_shrink(height, width, least), expected)
            << height << " x " << width << ", " << least;
      }
    }
  }
  EXPECT_EQ(jpeg_shrink(10'000, 10'000, 0), 1);
  EXPECT_EQ(jpeg_shrink(448, 447, 224), 1);
  EXPECT_EQ(jpeg_shrink(448, 448, 224), 2);
}

TEST(JpegShrink, GivesThePixelsOfLibjpegInEveryForm) {
  for (const test::NamedForm& named : test::jpeg_forms()) {
    JpegForm form = named.form;
    if (test::channels_of(form.stored) == 4) continue;  // libjpeg makes no RGB of them
    for (const auto& [height, width] : {std::pair{131, 157}, {64, 96}}) {
      form.height = height;
      form.width = width;
      const JpegBytes file = test::jpeg_file(form);
      for (const int64_t shrink : {1, 2, 4, 8}) {
        SCOPED_TRACE(concat(named.name, ' ', height, " x ", width, " at 1/", shrink));
        const int64_t least = std::min(height, width) / shrink;
        ASSERT_EQ(jpeg_shrink(height, width, least), shrink);
        const Image image = decode_image(file, "f", {.least_side = least});
        const PlainImage expected = decoded_by_libjpeg(file, static_cast<unsigned>(shrink));
        ASSERT_EQ(image.height, expected.height);
        ASSERT_EQ(image.width, expected.width);
        EXPECT_EQ(image.height, (height + shrink - 1) / shrink);
        EXPECT_GE(std::min(image.height, image.width), least);
        EXPECT_EQ(std::memcmp(image.pixels.get(), expected.pixels.data(), expected.pixels.size()),
                  0);
      }
    }
  }
}

TEST(JpegShrink, OfCmykHasTheSizeAndIsConverted) {
  const JpegBytes file = test::jpeg_file({.height = 64, .width = 80, .stored = JCS_CMYK});
  const Image image = decode_image(file, "f", {.least_side = 16});
  EXPECT_EQ(image.height, 16);
  EXPECT_EQ(image.width, 20);
}

// A transform of fewer coefficients is no mean of pixels, but of a smooth image near to it: within 4 levels of 255, and
// within 1 in the mean, at quality 95. Measured with libjpeg alone: 3.0 and 0.53.
TEST(JpegShrink, IsNearTheMeansOfTheWholeImage) {
  constexpr int kHeight = 96, kWidth = 128;
  JpegBytes drawn;
  for (int y = 0; y < kHeight; ++y)
    for (int x = 0; x < kWidth; ++x)
      for (int channel = 0; channel < 3; ++channel)
        drawn.push_back(static_cast<uint8_t>(
            std::lround(128 + 100 * std::sin(x / 17.0 + channel) * std::cos(y / 13.0))));
  for (const int factor : {1, 2}) {
    const JpegBytes file = test::jpeg_file({.height = kHeight,
                                            .width = kWidth,
                                            .factors = {{factor, factor}, {1, 1}, {1, 1}},
                                            .quality = 95},
                                           drawn);
    const Image whole = decode_image(file, "whole");
    for (const int64_t shrink : {2, 4, 8}) {
      const Image small = decode_image(file, "small", {.least_side = kHeight / shrink});
      ASSERT_EQ(small.width, kWidth / shrink);
      double greatest = 0, sum = 0;
      for (int64_t at = 0; at < small.bytes(); ++at) {
        const int64_t channel = at % 3, x = at / 3 % small.width, y = at / 3 / small.width;
        double mean = 0;
        for (int64_t i = 0; i < shrink * shrink; ++i)
          mean += whole.pixels[static_cast<size_t>(
              ((y * shrink + i / shrink) * whole.width + x * shrink + i % shrink) * 3 + channel)];
        const double difference = std::abs(mean / static_cast<double>(shrink * shrink) -
                                           small.pixels[static_cast<size_t>(at)]);
        greatest = std::max(greatest, difference);
        sum += difference;
      }
      EXPECT_LE(greatest, 4) << factor << " at 1/" << shrink;
      EXPECT_LE(sum / static_cast<double>(small.bytes()), 1) << factor << " at 1/" << shrink;
    }
  }
}

TEST(JpegShrink, ChangesNothingOfRegionsAndOfPng) {
  const JpegBytes file = test::jpeg_file({.height = 64, .width = 64});
  const ImageRegion region{.top = 8, .left = 16, .height = 32, .width = 24};
  const Image exact = decode_image(file, "f", region),
              same = decode_image(file, "f", region, {.least_side = 8});
  ASSERT_EQ(same.height, 32);
  EXPECT_EQ(std::memcmp(exact.pixels.get(), same.pixels.get(), static_cast<size_t>(exact.bytes())),
            0);
  const std::string png = read_file(test::source_path("tests/golden/images/input/colour8.png"));
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(png.data()), png.size());
  EXPECT_EQ(decode_image(bytes, "p", {.least_side = 1}).height, decode_image(bytes, "p").height);
}

TEST(JpegShrink, RefusesWhatTheWholeIsRefusedFor) {
  JpegBytes file = test::jpeg_file({.height = 64, .width = 64});
  file.resize(file.size() / 2);
  EXPECT_ANY_THROW(decode_image(file, "f", {.least_side = 8}));
  const JpegBytes large = test::jpeg_file({.height = 64, .width = 64});
  EXPECT_ANY_THROW(decode_image(large, "f", {.max_pixels = 1000, .least_side = 8}));
}

}  // namespace
}  // namespace muster::formats
