// Regions of JPEG files in all forms of storage, and damage.
#include <algorithm>
#include <cstring>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/text.h"
#include "muster/formats/image/image.h"

#include "tests/formats/image/jpeg_files.h"
#include "tests/support/error_of.h"

namespace muster::formats {
namespace {

using test::JpegForm;
using ::testing::HasSubstr;
using Bytes = std::vector<uint8_t>;

/// The first place where the part differs from the whole, or -1.
int64_t first_difference(const Image& whole, const Image& part, const ImageRegion& region) {
  for (int64_t y = 0; y < region.height; ++y) {
    const uint8_t* a = part.pixels.get() + y * region.width * 3;
    const uint8_t* b = whole.pixels.get() + ((region.top + y) * whole.width + region.left) * 3;
    const auto bytes = static_cast<size_t>(region.width) * 3;
    if (std::memcmp(a, b, bytes) != 0)
      return y * region.width * 3 + (std::mismatch(a, a + bytes, b).first - a);
  }
  return -1;
}

TEST(JpegRegion, EveryRegionOfEveryFormIsThatPartOfTheWhole) {
  std::mt19937 random(3);
  const auto below = [&](int64_t limit) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(limit));
  };
  for (const test::NamedForm& named : test::jpeg_forms()) {
    for (const auto& [height, width] : {std::pair{131, 157}, {64, 96}, {7, 200}, {200, 5}}) {
      JpegForm form = named.form;
      form.height = height;
      form.width = width;
      SCOPED_TRACE(
          concat(named.name, form.progressive ? " progressive " : " ", height, " x ", width));
      const Bytes file = test::jpeg_file(form);
      const Image whole = decode_image(file, "whole");
      for (int round = 0; round < 120; ++round) {
        ImageRegion region{.top = below(height), .left = below(width)};
        region.height = 1 + below(round % 2 == 0 ? height - region.top
                                                 : std::min<int64_t>(height - region.top, 9));
        region.width = 1 + below(round % 3 == 0 ? width - region.left
                                                : std::min<int64_t>(width - region.left, 9));
        const Image part = decode_image(file, "part", region);
        ASSERT_EQ(first_difference(whole, part, region), -1)
            << region.height << " x " << region.width << " at " << region.top << ", "
            << region.left;
      }
    }
  }
}

TEST(JpegRegion, RegionsThatTouchEdgesOfBlocksAreThatPartOfTheWhole) {
  for (const auto& factors :
       {std::array{1, 1}, std::array{2, 1}, std::array{2, 2}, std::array{1, 2}}) {
    const JpegForm form{.height = 70, .width = 90, .factors = {factors, {1, 1}, {1, 1}}};
    const Bytes file = test::jpeg_file(form);
    const Image whole = decode_image(file, "whole");
    for (const int64_t edge : {0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64}) {
      for (const int64_t count : {1, 2, 7, 8, 16}) {
        for (const bool across : {true, false}) {
          const int64_t all = across ? form.width : form.height;
          if (edge + count > all) continue;
          const ImageRegion region{.top = across ? 20 : edge,
                                   .left = across ? edge : 20,
                                   .height = across ? 3 : count,
                                   .width = across ? count : 3};
          ASSERT_EQ(first_difference(whole, decode_image(file, "part", region), region), -1)
              << factors[0] << "x" << factors[1] << (across ? " column " : " row ") << edge << " + "
              << count;
        }
      }
    }
  }
}

Bytes plain_file() {
  return test::jpeg_file({.height = 80, .width = 120, .factors = {{2, 2}, {1, 1}, {1, 1}}});
}

/// Behind the header of the first scan.
size_t first_scan(const Bytes& file) {
  for (size_t i = 2; i + 1 < file.size(); ++i) {
    if (file[i] == 0xff && file[i + 1] == 0xda)
      return i + 2 + file[i + 2] * size_t{256} + file[i + 3];
  }
  return 0;
}

TEST(JpegDamage, ATruncatedFileIsRefusedWithItsLength) {
  const Bytes file = plain_file();
  const std::string text =
      test::refusal_of([&] { decode_image(std::span(file).first(file.size() / 2), "cats/7.jpg"); },
                       ErrorKind::kEnvironment);
  EXPECT_THAT(text, HasSubstr("damaged JPEG file cats/7.jpg"));
  EXPECT_THAT(text, HasSubstr(concat("cut short after ", file.size() / 2, " bytes")));
}

TEST(JpegDamage, DataThatEndTooSoonAreRefusedOrKeptAsPillowKeepsThem) {
  Bytes file = plain_file();
  const size_t half = first_scan(file) + (file.size() - first_scan(file)) / 2;
  file[half] = 0xff;  // the end of the image, in the middle of it
  file[half + 1] = 0xd9;
  const std::string text =
      test::refusal_of([&] { decode_image(file, "cats/7.jpg"); }, ErrorKind::kEnvironment);
  EXPECT_THAT(text, HasSubstr("premature end of data segment"));
  EXPECT_THAT(text, HasSubstr(concat(" of ", file.size())));
  const Image image = decode_image(file, "cats/7.jpg", {.keep_damaged = true});
  EXPECT_THAT(image.complaint, HasSubstr("premature end of data segment"));
  const Image whole = decode_image(plain_file(), "whole");
  EXPECT_EQ(std::memcmp(image.pixels.get(), whole.pixels.get(), 16 * 120 * 3), 0)
      << "what comes before is whole";
  // From there on the last known colour is repeated.
  EXPECT_EQ(
      std::memcmp(image.pixels.get() + 79 * 120 * 3, image.pixels.get() + 78 * 120 * 3, 100 * 3),
      0);
}

TEST(JpegDamage, DamageBelowARegionIsNotSeen) {
  Bytes file = plain_file();
  const size_t late = first_scan(file) + (file.size() - first_scan(file)) * 9 / 10;
  file[late] = 0xff;
  file[late + 1] = 0xd9;
  EXPECT_THAT(test::refusal_of([&] { decode_image(file, "f"); }, ErrorKind::kEnvironment),
              HasSubstr("premature"));
  const ImageRegion top{.top = 0, .left = 40, .height = 8, .width = 30};
  const Image whole = decode_image(plain_file(), "whole");
  EXPECT_EQ(first_difference(whole, decode_image(file, "f", top), top), -1);
}

TEST(JpegDamage, AHeaderThatClaimsMoreThanTheFileCanHoldIsRefused) {
  Bytes file = plain_file();
  for (size_t i = 2; i + 1 < file.size(); ++i) {
    if (file[i] != 0xff || file[i + 1] != 0xc0) continue;
    file[i + 5] = 0x30;  // height
    file[i + 7] = 0x30;  // width
    break;
  }
  EXPECT_THAT(test::refusal_of([&] { decode_image(file, "f"); }, ErrorKind::kEnvironment),
              HasSubstr("an image of 12408 x 12368 takes 299730 bytes or more"));
}

TEST(JpegDamage, AFileOfTooManyScansIsRefused) {
  Bytes file =
      test::jpeg_file({.height = 16, .width = 16, .stored = JCS_GRAYSCALE, .progressive = true});
  // The last scan, from its marker on, once more and again.
  size_t last = 0;
  for (size_t i = 0; i + 1 < file.size(); ++i) {
    if (file[i] == 0xff && file[i + 1] == 0xda) last = i;
  }
  const Bytes scan(file.begin() + static_cast<ptrdiff_t>(last), file.end() - 2);
  Bytes many(file.begin(), file.end() - 2);
  for (int i = 0; i < 600; ++i) many.insert(many.end(), scan.begin(), scan.end());
  many.insert(many.end(), {0xff, 0xd9});
  EXPECT_THAT(test::refusal_of([&] { decode_image(many, "f", {.keep_damaged = true}); },
                               ErrorKind::kEnvironment),
              HasSubstr("at most 500 scans"));
}

TEST(JpegDamage, OtherNumbersOfChannelsAndBitsAreRefused) {
  for (const int channels : {2, 5}) {
    Bytes file{0xff,
               0xd8,
               0xff,
               0xc0,
               0,
               static_cast<uint8_t>(8 + 3 * channels),
               8,
               0,
               8,
               0,
               8,
               static_cast<uint8_t>(channels)};
    for (int i = 1; i <= channels; ++i) file.insert(file.end(), {static_cast<uint8_t>(i), 0x11, 0});
    file.insert(file.end(), {0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0, 0xff, 0xd9});
    EXPECT_THAT(test::refusal_of([&] { decode_image(file, "f"); }, ErrorKind::kEnvironment),
                HasSubstr(concat("1, 3 or 4 channels (got ", channels, ")")));
  }
  Bytes deep = plain_file();
  for (size_t i = 2; i + 1 < deep.size(); ++i) {
    if (deep[i] != 0xff || deep[i + 1] != 0xc0) continue;
    deep[i + 4] = 12;
    break;
  }
  EXPECT_THAT(test::refusal_of([&] { decode_image(deep, "f"); }, ErrorKind::kEnvironment),
              HasSubstr("precision 12"));
}

}  // namespace
}  // namespace muster::formats
