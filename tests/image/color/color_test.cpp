// Colours against torchvision on uint8 tensors (tests/golden/image).
#include "muster/image/color/color.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "muster/image/kernels/kernels.h"

#include "tests/image/test_images.h"
#include "tests/support/golden.h"

namespace muster::image {
namespace {

using test::blank_image;
using test::digest_text;
using test::TestImage;

void recolor(const std::string& what, double by, const Pixels& in, const MutablePixels& out) {
  if (what == "brightness") apply_table(in, out, brightness_table(by));
  if (what == "contrast") {
    const auto pixels = static_cast<float>(in.height * in.width);
    apply_table(in, out, blend_table(by, static_cast<float>(gray_sum(in)) / pixels));
  }
  if (what == "saturation") adjust_saturation(in, out, by);
  if (what == "hue") adjust_hue(in, out, by);
  if (what == "sharpness") adjust_sharpness(in, out, by);
  if (what == "posterize") apply_table(in, out, posterize_table(static_cast<int64_t>(by)));
  if (what == "solarize") apply_table(in, out, solarize_table(by));
  if (what == "invert") apply_table(in, out, invert_table());
  if (what == "autocontrast") autocontrast(in, out);
  if (what == "equalize") equalize(in, out);
  if (what == "grayscale") {
    if (in.channels == 3) {
      grayscale(in, out);
    } else {
      apply_table(in, out, brightness_table(1));
    }
  }
}

TestImage image_of(const Json& item) {
  TestImage image =
      test::test_image(item.at("kind").get<std::string>(), item.at("shape"), item.at("seed"));
  if (item.at("flat").get<bool>()) {
    const auto plane = static_cast<size_t>(image.height * image.width);
    for (size_t i = 0; i < image.bytes.size(); ++i)
      image.bytes[i] = i < plane ? uint8_t{41} : std::clamp<uint8_t>(image.bytes[i], 90, 97);
  }
  return image;
}

TEST(Color, HasEveryByteOfTorchvision) {
  const Json golden = test::read_golden("image");
  for (const Json& item : golden.at("color")) {
    const TestImage in = image_of(item);
    const std::string what = item.at("what");
    const std::vector<uint8_t> side_by_side = test::interleaved_bytes(in);
    for (const Json& pair : item.at("out")) {
      SCOPED_TRACE(what + " " + pair.dump() + " of " + item.at("shape").dump() +
                   item.at("kind").dump() + item.at("flat").dump());
      TestImage out = blank_image(what == "grayscale" ? 1 : in.channels, in.height, in.width);
      TestImage also = out;
      recolor(what, pair[0], in.pixels(), out.pixels());
      EXPECT_EQ(digest_text(out), pair[1].get<std::string>());
      recolor(what,
              pair[0],
              interleaved(side_by_side.data(), in.channels, in.height, in.width),
              also.pixels());
      EXPECT_EQ(also.bytes, out.bytes) << "of pixels side by side";
    }
  }
}

/// Calls both builds of the loops with each image, and compares what they write.
TEST(Color, LoopsForAnyProcessorGiveTheBytesOfThoseForAvx2) {
  const Kernels* fast = avx2_kernels();
  if (fast == nullptr) GTEST_SKIP() << "this processor has no AVX2";
  const Kernels& plain = baseline_kernels();
  const TestImage in = test::noise_image(3, 1, 5003, 77), any = test::noise_image(1, 1, 256, 3);
  ByteTable table;
  std::ranges::copy(any.bytes, table.begin());
  const uint8_t *r = in.pixels().at(0, 0), *g = in.pixels().at(1, 0), *b = in.pixels().at(2, 0);
  for (const int64_t count : {1, 7, 31, 32, 33, 5003}) {
    const RgbRow row{r, g, b, 1};
    const auto both = [&](auto change) {
      TestImage one = blank_image(3, 1, count), two = one;
      change(plain, one);
      change(*fast, two);
      EXPECT_EQ(one.bytes, two.bytes) << count;
    };
    const auto rgb = [](TestImage& out) {
      return MutableRgbRow{out.pixels().at(0, 0), out.pixels().at(1, 0), out.pixels().at(2, 0), 1};
    };
    both([&](const Kernels& k, TestImage& out) { k.gray(row, count, out.bytes.data()); });
    both([&](const Kernels& k, TestImage& out) { k.reversed(r, count, out.bytes.data()); });
    both([&](const Kernels& k, TestImage& out) {
      k.by_table(r, count, table.data(), out.bytes.data());
      k.widen(r, count, &out.bytes[static_cast<size_t>(count)], &out.bytes.back());
    });
    both([&](const Kernels& k, TestImage& out) {
      k.sharpness(r, g, b, count, 1.7, out.bytes.data());
    });
    for (const double by : {-0.4, 0.05, 0.31}) {
      both([&](const Kernels& k, TestImage& out) { k.hue(row, count, by, rgb(out)); });
      both([&](const Kernels& k, TestImage& out) {
        k.saturation(row, count, 1 + 2 * by, rgb(out));
      });
    }
  }
}

}  // namespace
}  // namespace muster::image
