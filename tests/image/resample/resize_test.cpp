// Every byte of resized images: Pillow's and torchvision's (tests/golden/image).
#include "muster/image/resample/resize.h"

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

const Json& golden() {
  static const Json read = test::read_golden("image");
  return read;
}

Filter filter_of(std::string_view name) {
  for (const Filter filter : {Filter::kNearest,
                              Filter::kBox,
                              Filter::kBilinear,
                              Filter::kHamming,
                              Filter::kBicubic,
                              Filter::kLanczos}) {
    if (to_string(filter) == name) return filter;
  }
  ADD_FAILURE() << name;
  return Filter::kNearest;
}

/// The golden's image in its new size, from planes or from pixels side by side.
std::string resized_digest(const Json& item,
                           Filter filter,
                           Reference reference,
                           const Kernels& loops,
                           bool from_interleaved) {
  const TestImage in =
      test::test_image(item.at("kind").get<std::string>(), item.at("shape"), item.at("seed"));
  const std::vector<uint8_t> side_by_side = test::interleaved_bytes(in);
  const Pixels pixels = from_interleaved
                            ? interleaved(side_by_side.data(), in.channels, in.height, in.width)
                            : in.pixels();
  TestImage out = blank_image(in.channels, item.at("size")[0], item.at("size")[1]);
  resize(pixels, out.pixels(), filter, reference, loops);
  return digest_text(out);
}

std::vector<const Kernels*> both_builds() {
  std::vector<const Kernels*> all{&baseline_kernels()};
  if (avx2_kernels() != nullptr) all.push_back(avx2_kernels());
  return all;
}

TEST(Resize, HasEveryByteOfPillowAndOfTorchvision) {
  for (const Json& item : golden().at("resize")) {
    for (const auto& [key, reference] :
         {std::pair{"pillow", Reference::kPillow}, std::pair{"tensor", Reference::kTensor}}) {
      for (const auto& [name, digest] : item.at(key).items()) {
        SCOPED_TRACE(std::string(key) + " " + name + " " + item.at("kind").dump() +
                     item.at("shape").dump() + " to " + item.at("size").dump());
        for (const Kernels* loops : both_builds()) {
          for (const bool from_interleaved : {false, true}) {
            EXPECT_EQ(resized_digest(item, filter_of(name), reference, *loops, from_interleaved),
                      digest.get<std::string>())
                << (loops == &baseline_kernels() ? "baseline" : "AVX2")
                << (from_interleaved ? ", interleaved" : "");
          }
        }
      }
    }
  }
}

TEST(Resize, TakesOneNumberAsTheShorterSide) {
  for (const Json& item : golden().at("sizes")) {
    SCOPED_TRACE(item.dump());
    const Size size = resized_size(
        {item.at("image")[0], item.at("image")[1]}, item.at("size"), item.at("max_size"));
    EXPECT_EQ(size.height, item.at("new")[0].get<int64_t>());
    EXPECT_EQ(size.width, item.at("new")[1].get<int64_t>());
  }
}

TEST(Resize, OfACutOutReadsNothingAround) {
  const TestImage whole = test::noise_image(3, 40, 50, 9);
  const Pixels cut = part(whole.pixels(), 7, 11, 23, 30);
  TestImage alone = blank_image(3, 23, 30);
  for (int64_t c = 0; c < 3; ++c) {
    for (int64_t y = 0; y < 23; ++y) {
      for (int64_t x = 0; x < 30; ++x) *alone.pixels().at(c, y, x) = *cut.at(c, y, x);
    }
  }
  for (const Reference reference : {Reference::kPillow, Reference::kTensor}) {
    TestImage a = blank_image(3, 31, 12), b = a;
    resize(cut, a.pixels(), Filter::kBilinear, reference);
    resize(alone.pixels(), b.pixels(), Filter::kBilinear, reference);
    EXPECT_EQ(a.bytes, b.bytes);
  }
}

TEST(Resize, RefusesWhatHasNoPixelsOrOtherChannels) {
  const TestImage in = test::noise_image(3, 4, 5, 1);
  TestImage empty = blank_image(3, 0, 5), gray = blank_image(1, 4, 5);
  const auto refused = [&](TestImage& out) {
    return test::error_of(
        [&] { resize(in.pixels(), out.pixels(), Filter::kBox, Reference::kPillow); });
  };
  EXPECT_THAT(refused(empty), HasSubstr("each side is in 1 … 16777216 (got 3 x 0 x 5)"));
  EXPECT_THAT(refused(gray), HasSubstr("as many channels (got 3, 1)"));
}

}  // namespace
}  // namespace muster::image
