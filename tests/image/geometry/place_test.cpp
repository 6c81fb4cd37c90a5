// Flips, cut-outs and borders against torchvision (tests/golden/image).
#include "muster/image/geometry/place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/image/test_images.h"
#include "tests/support/error_of.h"
#include "tests/support/golden.h"

namespace muster::image {
namespace {

using test::blank_image;
using test::digest_text;
using test::TestImage;
using ::testing::HasSubstr;

Border border_of(std::string_view name) {
  for (const Border border : {Border::kEdge, Border::kReflect, Border::kSymmetric}) {
    if (to_string(border) == name) return border;
  }
  return Border::kConstant;
}

TestImage placed(const TestImage& in, const Json& item) {
  const std::string what = item.at("what");
  if (what.starts_with("flip")) {
    TestImage out = blank_image(in.channels, in.height, in.width);
    (what == "flip_vertical" ? flip_vertical : flip_horizontal)(in.pixels(), out.pixels());
    return out;
  }
  if (what == "crop") {
    const auto box = item.at("box").get<std::vector<int64_t>>();
    TestImage out = blank_image(in.channels, box[2], box[3]);
    place(in.pixels(), out.pixels(), -box[0], -box[1], Border::kConstant, {});
    return out;
  }
  const auto padding = item.at("padding").get<std::vector<int64_t>>();
  const auto fill = item.at("fill").get<std::vector<uint8_t>>();
  TestImage out = blank_image(
      in.channels, in.height + padding[1] + padding[3], in.width + padding[0] + padding[2]);
  place(in.pixels(), out.pixels(), padding[1], padding[0], border_of(what), fill);
  return out;
}

TEST(Place, PutsPixelsWhereTorchvisionDoes) {
  const TestImage in = test::noise_image(3, 9, 40, 3);
  const Json golden = test::read_golden("image");
  for (const Json& item : golden.at("geometry"))
    EXPECT_EQ(digest_text(placed(in, item)), item.at("out").get<std::string>()) << item.dump();
}

TEST(Place, TakesPixelsSideBySide) {
  const TestImage in = test::noise_image(3, 9, 40, 3);
  const std::vector<uint8_t> bytes = test::interleaved_bytes(in);
  const Pixels pixels = interleaved(bytes.data(), 3, 9, 40);
  TestImage flipped = blank_image(3, 9, 40), expected = flipped;
  flip_horizontal(pixels, flipped.pixels());
  flip_horizontal(in.pixels(), expected.pixels());
  EXPECT_EQ(flipped.bytes, expected.bytes);
  TestImage padded = blank_image(3, 12, 50), also = padded;
  place(pixels, padded.pixels(), 2, 3, Border::kReflect, {});
  place(in.pixels(), also.pixels(), 2, 3, Border::kReflect, {});
  EXPECT_EQ(padded.bytes, also.bytes);
}

TEST(Place, MirrorsNoFurtherThanTheImageReaches) {
  const TestImage in = test::noise_image(1, 4, 4, 3);
  const auto refused = [&](Border border, int64_t by) {
    TestImage out = blank_image(1, 4, 4 + by);
    return test::error_of([&] { place(in.pixels(), out.pixels(), 0, by, border, {}); });
  };
  EXPECT_THAT(refused(Border::kReflect, 4), HasSubstr("mirrored, 3 pixels (got 4)"));
  EXPECT_THAT(refused(Border::kSymmetric, 5), HasSubstr("mirrored, 4 pixels (got 5)"));
}

}  // namespace
}  // namespace muster::image
