// Changes of images by themselves: whatever the strides, and what is refused. Their results are held
// to torchvision's in tests/data/transforms/torchvision_test.cpp and tests/image.
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/data/functional/color.h"
#include "muster/data/functional/place.h"
#include "muster/data/functional/resize.h"
#include "muster/data/functional/warp.h"

#include "tests/support/error_of.h"

namespace muster::data::functional {
namespace {

using ::testing::HasSubstr;

using Change = std::function<at::Tensor(const at::Tensor&)>;

std::vector<std::pair<std::string, Change>> all_changes() {
  return {
      {"resize", [](const auto& x) { return resize(x, 13, 31); }},
      {"resize narrower", [](const auto& x) { return resize(x, x.size(1), 9); }},
      {"resize lower", [](const auto& x) { return resize(x, 9, x.size(2)); }},
      {"resize as Pillow",
       [](const auto& x) { return resize(x, 7, 20, {.reference = image::Reference::kPillow}); }},
      {"horizontal_flip", [](const auto& x) { return horizontal_flip(x); }},
      {"vertical_flip", [](const auto& x) { return vertical_flip(x); }},
      {"pad",
       [](const auto& x) {
         return pad(x, Padding{1, 2, 3, 4}, image::Border::kReflect);
       }},
      {"crop", [](const auto& x) { return crop(x, 2, -3, 9, 20); }},
      {"center_crop", [](const auto& x) { return center_crop(x, 40, 8); }},
      {"erase",
       [](const auto& x) {
         return erase(x, 1, 2, 3, 4, torch::full({1, 1, 1}, 9));
       }},
      {"grayscale", [](const auto& x) { return grayscale(x); }},
      {"adjust_brightness", [](const auto& x) { return adjust_brightness(x, 1.3); }},
      {"adjust_contrast", [](const auto& x) { return adjust_contrast(x, 1.3); }},
      {"adjust_saturation", [](const auto& x) { return adjust_saturation(x, 1.3); }},
      {"adjust_hue", [](const auto& x) { return adjust_hue(x, 0.2); }},
      {"adjust_sharpness", [](const auto& x) { return adjust_sharpness(x, 1.7); }},
      {"invert", [](const auto& x) { return invert(x); }},
      {"posterize", [](const auto& x) { return posterize(x, 3); }},
      {"solarize", [](const auto& x) { return solarize(x, 100); }},
      {"autocontrast", [](const auto& x) { return autocontrast(x); }},
      {"equalize", [](const auto& x) { return equalize(x); }},
      {"gaussian_blur", [](const auto& x) { return gaussian_blur(x, 3, 5, 1.1); }},
      {"affine",
       [](const auto& x) {
         return affine(x, {.angle = 20, .shear = {3, 0}});
       }},
      {"rotate", [](const auto& x) { return rotate(x, {.angle = 33, .expand = true}); }},
      {"rotate by a quarter",
       [](const auto& x) { return rotate(x, {.angle = 90, .expand = true}); }},
      {"to_dtype", [](const auto& x) { return to_dtype(x, torch::kFloat, true); }},
  };
}

TEST(Functional, GivesTheSameForAnyStridesAndWritesToNothing) {
  auto generator = torch::make_generator<at::CPUGeneratorImpl>(3);
  const at::Tensor whole = torch::randint(0, 256, {3, 30, 44}, generator, torch::kByte);
  const at::Tensor plain = whole.narrow(1, 4, 21).narrow(2, 5, 34).contiguous();
  const at::Tensor side_by_side = plain.permute({1, 2, 0}).contiguous().permute({2, 0, 1});
  const at::Tensor sparse = torch::zeros({3, 42, 68}, torch::kByte);
  const at::Tensor every_other = sparse.slice(1, 0, 42, 2).slice(2, 0, 68, 2);
  every_other.copy_(plain);
  for (const auto& [name, change] : all_changes()) {
    SCOPED_TRACE(name);
    const at::Tensor expected = change(plain);
    for (const at::Tensor& image : {whole.narrow(1, 4, 21).narrow(2, 5, 34),
                                    side_by_side,
                                    every_other,
                                    plain.transpose(1, 2).contiguous().transpose(1, 2)}) {
      const at::Tensor before = image.clone();
      EXPECT_TRUE(change(image).equal(expected)) << image.strides();
      EXPECT_TRUE(image.equal(before)) << "it was written to";
    }
    EXPECT_FALSE(expected.is_alias_of(plain));
  }
}

TEST(Functional, RefusesWhatIsNoImageAndNumbersOutOfRange) {
  const at::Tensor image = torch::zeros({3, 8, 9}, torch::kByte);
  const auto refused = [](const std::function<void()>& change) { return test::error_of(change); };
  EXPECT_THAT(refused([&] { horizontal_flip(image[0]); }), HasSubstr("it is [channels, height"));
  EXPECT_THAT(refused([&] { invert(image.to(torch::kLong)); }), HasSubstr("of int64 on cpu"));
  EXPECT_THAT(refused([&] { resize(image, 0, 4); }), HasSubstr("at least 1 (got 0 x 4)"));
  EXPECT_THAT(refused([&] { resize(image, 4, 4, {.interpolation = Interpolation::kBox}); }),
              HasSubstr("tensors have no such filter"));
  EXPECT_THAT(refused([&] {
                resize(image.to(torch::kFloat), 4, 4, {.reference = image::Reference::kPillow});
              }),
              HasSubstr("bytes, and 1 or 3 channels"));
  EXPECT_THAT(refused([&] { pad(image, Padding{.left = -1}); }), HasSubstr("below 0 (got -1)"));
  EXPECT_THAT(refused([&] { pad(image, Padding{.left = 9}, image::Border::kReflect); }),
              HasSubstr("what is mirrored, 8 pixels (got 9)"));
  EXPECT_THAT(refused([&] { adjust_hue(image, 0.6); }), HasSubstr("-0.5 … 0.5 (got 0.6)"));
  EXPECT_THAT(refused([&] { adjust_contrast(image, -1); }), HasSubstr("at least 0 (got -1)"));
  EXPECT_THAT(refused([&] { adjust_hue(image.narrow(0, 0, 2), 0); }), HasSubstr("1 or 3 channels"));
  EXPECT_THAT(refused([&] { gaussian_blur(image, 4, 3, 1); }), HasSubstr("odd"));
  EXPECT_THAT(refused([&] { gaussian_blur(image, 17, 3, 1); }), HasSubstr("beyond 8 pixels"));
  EXPECT_THAT(refused([&] { solarize(image, 256); }), HasSubstr("at most 255 (got 256)"));
  EXPECT_THAT(refused([&] { affine(image, {.scale = 0}); }), HasSubstr("above 0 (got 0)"));
  EXPECT_THAT(refused([&] { rotate(image, {.angle = 3}, Interpolation::kBicubic); }),
              HasSubstr("nearest or bilinear (got bicubic)"));
}

}  // namespace
}  // namespace muster::data::functional
