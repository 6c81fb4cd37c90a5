// Pillow's pixels, from tests/golden/images/golden.json, and what is refused.
#include "muster/formats/image/image.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/formats/crc32.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/support/golden.h"

namespace muster::formats {
namespace {

using ::testing::HasSubstr;

std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::string sum_of(const Image& image) {
  return crc32_text(crc32_of(
      {reinterpret_cast<const char*>(image.pixels.get()), static_cast<size_t>(image.bytes())}));
}

std::string input_path(const std::string& file) {
  return test::source_path("tests/golden/images/input/" + file);
}

TEST(ImageGolden, EveryFileHasPillowsPixels) {
  const Json golden = test::read_golden("images");
  int jpegs = 0, pngs = 0;
  for (const Json& entry : golden.at("images")) {
    const auto file = entry.at("file").get<std::string>();
    SCOPED_TRACE(file);
    const Image image = read_image(input_path(file));
    EXPECT_EQ(image.width, entry.at("width"));
    EXPECT_EQ(image.height, entry.at("height"));
    const auto start = entry.at("start").get<std::vector<uint8_t>>();
    EXPECT_EQ(std::vector<uint8_t>(image.pixels.get(), image.pixels.get() + start.size()), start);
    EXPECT_EQ(sum_of(image), entry.at("crc32").get<std::string>());
    EXPECT_EQ(image.complaint, "");
    ++(file.ends_with(".jpg") ? jpegs : pngs);
  }
  EXPECT_EQ(jpegs, 19);
  EXPECT_EQ(pngs, 38);
}

TEST(ImageGolden, RegionsOfEveryFileAreThatPartOfIt) {
  const Json golden = test::read_golden("images");
  for (const Json& entry : golden.at("images")) {
    const auto file = entry.at("file").get<std::string>();
    SCOPED_TRACE(file);
    const std::string data = read_file(input_path(file));
    const Image whole = decode_image(bytes_of(data), file);
    for (int64_t top = 0; top < whole.height; top += 3) {
      for (int64_t left = 0; left < whole.width; left += 4) {
        const ImageRegion region{.top = top,
                                 .left = left,
                                 .height = std::min<int64_t>(5, whole.height - top),
                                 .width = std::min<int64_t>(7, whole.width - left)};
        const Image part = decode_image(bytes_of(data), file, region);
        ASSERT_EQ(part.height, region.height);
        ASSERT_EQ(part.width, region.width);
        for (int64_t y = 0; y < region.height; ++y) {
          ASSERT_EQ(std::memcmp(part.pixels.get() + y * region.width * 3,
                                whole.pixels.get() + ((top + y) * whole.width + left) * 3,
                                static_cast<size_t>(region.width) * 3),
                    0)
              << "row " << y << " of the region at " << top << ", " << left;
        }
      }
    }
  }
}

TEST(ImageGolden, AFileCutShortAnywhereIsRefused) {
  const Json golden = test::read_golden("images");
  for (const Json& entry : golden.at("images")) {
    const auto file = entry.at("file").get<std::string>();
    const std::string data = read_file(input_path(file));
    // What only says that the image is over may be missing, as it may for Pillow: IEND behind the
    // pixels of a PNG, EOI of a JPEG that is not progressive.
    const size_t spare = file.ends_with(".png") ? 12 + 1 : 3;
    for (size_t length = 0; length + spare < data.size(); ++length) {
      const std::string text = test::refusal_of(
          [&] { decode_image(bytes_of(data).first(length), "dir/cut"); }, ErrorKind::kEnvironment);
      ASSERT_THAT(text, HasSubstr("dir/cut")) << file << " after " << length;
      ASSERT_THAT(text, HasSubstr("hint: ")) << file << " after " << length;
    }
  }
}

TEST(ImageGolden, ManyThreadsDecodeAtOnce) {
  std::vector<std::string> files, sums;
  const Json golden = test::read_golden("images");
  for (const Json& entry : golden.at("images")) {
    files.push_back(read_file(input_path(entry.at("file").get<std::string>())));
    sums.push_back(entry.at("crc32"));
  }
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (size_t thread = 0; thread < wrong.size(); ++thread) {
    threads.emplace_back([&, thread] {
      for (size_t i = 0; i < files.size(); ++i) {
        const size_t at = (i + thread * 7) % files.size();
        const std::string cut = files[at].substr(0, files[at].size() / 2);
        test::error_of([&] { decode_image(bytes_of(cut), "cut"); });
        if (sum_of(decode_image(bytes_of(files[at]), "whole")) != sums[at]) ++wrong[thread];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(Image, TheHeaderSaysSizeAndKindWithoutPixels) {
  const std::string png = read_file(input_path("grey_alpha16_interlaced.png"));
  const ImageHeader of_png = read_image_header(bytes_of(png), "f");
  EXPECT_EQ(of_png.format, ImageFormat::kPng);
  EXPECT_EQ(of_png.width, 13);
  EXPECT_EQ(of_png.height, 11);
  EXPECT_EQ(of_png.channels, 2);
  EXPECT_EQ(of_png.bits, 16);
  EXPECT_TRUE(of_png.is_progressive);
  const std::string jpeg = read_file(input_path("cmyk.jpg"));
  const ImageHeader of_jpeg = read_image_header(bytes_of(jpeg).first(jpeg.size() / 2), "f");
  EXPECT_EQ(of_jpeg.format, ImageFormat::kJpeg);
  EXPECT_EQ(of_jpeg.width, 37);
  EXPECT_EQ(of_jpeg.height, 29);
  EXPECT_EQ(of_jpeg.channels, 4);
  EXPECT_EQ(of_jpeg.bits, 8);
  EXPECT_FALSE(of_jpeg.is_progressive);
}

TEST(Image, OtherKindsAreNamed) {
  const std::pair<std::string, const char*> kinds[] = {
      {"", "an empty file"},
      {"GIF89a...", "a GIF file"},
      {std::string("RIFF\0\0\0\0WEBPVP8 ", 16), "a WebP file"},
      {"BM123456", "a BMP file"},
      {std::string("II*\0....", 8), "a TIFF file"},
      {"P6\n1 1\n255\n...", "a PNM file"},
      {"<html>", "HTML"},
      {"\x01\x02\xabz tail", "9 bytes that begin with 01 02 ab 7a"}};
  for (const auto& entry : kinds) {
    const std::string text = test::refusal_of(
        [&] { decode_image(bytes_of(entry.first), "cats/1.jpg"); }, ErrorKind::kEnvironment);
    EXPECT_THAT(text, HasSubstr("cats/1.jpg"));
    EXPECT_THAT(text, HasSubstr("JPEG and PNG are read"));
    EXPECT_THAT(text, HasSubstr(entry.second));
  }
}

TEST(Image, MorePixelsThanAllowedAreRefused) {
  for (const char* file : {"colour_420.jpg", "colour8.png"}) {
    const std::string data = read_file(input_path(file));
    const ImageHeader header = read_image_header(bytes_of(data), file);
    const int64_t pixels = header.height * header.width;
    EXPECT_EQ(decode_image(bytes_of(data), file, {.max_pixels = pixels}).bytes(), pixels * 3);
    EXPECT_THAT(
        test::refusal_of([&] { decode_image(bytes_of(data), file, {.max_pixels = pixels - 1}); },
                         ErrorKind::kEnvironment),
        HasSubstr(concat("at most ", pixels - 1, " pixels")));
  }
}

TEST(Image, ARegionOutsideIsRefused) {
  const std::string data = read_file(input_path("colour_420.jpg"));  // 37 x 29
  const ImageRegion outside[] = {{.top = -1, .left = 0, .height = 2, .width = 2},
                                 {.top = 0, .left = 30, .height = 2, .width = 8},
                                 {.top = 28, .left = 0, .height = 2, .width = 2},
                                 {.top = 0, .left = 0, .height = 0, .width = 2},
                                 {.top = 1, .left = 0, .height = INT64_MAX, .width = 2}};
  for (const ImageRegion& region : outside)
    EXPECT_THAT(test::refusal_of([&] { decode_image(bytes_of(data), "f.jpg", region); }),
                HasSubstr("a part of its 37 x 29 pixels"));
}

TEST(Image, AMissingFileIsAUsageError) {
  const test::Folder folder;
  EXPECT_THAT(test::refusal_of([&] { read_image(folder.path() / "none.jpg"); }),
              HasSubstr("none.jpg"));
}

}  // namespace
}  // namespace muster::formats
