// Transforms against torchvision, from the same seeds: tests/golden/transforms/README.md.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/data/draws.h"
#include "muster/data/transform/draw_params.h"
#include "muster/data/transform/transformed.h"

#include "tests/image/test_images.h"
#include "tests/support/error_of.h"
#include "tests/support/kernel_golden.h"

namespace muster::data {
namespace {

using ::testing::HasSubstr;

/// Upright for odd seeds.
at::Tensor golden_image(int64_t seed) {
  const test::TestImage image = test::slopes_image(3, 21, 34, 2);
  const at::Tensor tensor =
      torch::tensor(at::ArrayRef<uint8_t>(image.bytes), torch::kByte).view({3, 21, 34});
  return seed % 2 == 0 ? tensor : tensor.permute({0, 2, 1}).contiguous();
}

/// What the chain makes of it with torchvision's numbers.
at::Tensor from_seed(const std::string& chain, int64_t seed) {
  Sample sample{.tensors = {{"data", golden_image(seed)}}};
  DataSpec spec{.name = "image", .sample_shape = {3, 0, 0}, .dtype = at::kByte};
  TorchDraws draws = torch_draws(static_cast<uint64_t>(seed));
  for (const TransformMaker& maker : parse_transforms(chain)) {
    const auto step = maker(spec);
    step->apply(sample, draws);
    spec = step->spec();
  }
  return sample["data"];
}

TEST(Torchvision, HasTheSameBytesFromTheSameSeeds) {
  if (!test::has_fused_kernels()) GTEST_SKIP() << "LibTorch's default kernels draw other numbers";
  const Json golden = test::read_golden("transforms");  // outlives the loop
  for (const Json& item : golden.at("exact")) {
    const std::string chain = item.at("chain");
    for (size_t seed = 0; seed < item.at("out").size(); ++seed) {
      const at::Tensor image = from_seed(chain, static_cast<int64_t>(seed)).contiguous();
      EXPECT_EQ(image.sizes().vec(), item.at("shapes")[seed].get<std::vector<int64_t>>()) << chain;
      EXPECT_EQ(test::digest_text(image.const_data_ptr(), image.nbytes()),
                item.at("out")[seed].get<std::string>())
          << chain << " of seed " << seed;
    }
  }
}

int64_t differing_bytes(const at::Tensor& image, const std::string& hex) {
  const auto* bytes = image.const_data_ptr<uint8_t>();
  int64_t differing = 0;
  for (int64_t i = 0; i < image.numel(); ++i)
    differing += std::stoi(hex.substr(static_cast<size_t>(2 * i), 2), nullptr, 16) != bytes[i];
  return differing;
}

TEST(Torchvision, HasNearlyTheSameBytesOnAnotherMachineWherePixelsAreSampled) {
  if (!test::has_fused_kernels()) GTEST_SKIP() << "LibTorch's default kernels draw other numbers";
  const Json golden = test::read_golden("transforms");  // outlives the loop
  for (const Json& item : golden.at("sampled")) {
    const std::string chain = item.at("chain");
    for (size_t i = 0; i < item.at("seeds").size(); ++i) {
      const at::Tensor image = from_seed(chain, item.at("seeds")[i]).contiguous();
      ASSERT_EQ(image.sizes().vec(), item.at("shapes")[i].get<std::vector<int64_t>>()) << chain;
      EXPECT_LE(static_cast<double>(differing_bytes(image, item.at("out")[i])),
                0.02 * static_cast<double>(image.numel()))
          << chain << " of seed " << item.at("seeds")[i];
    }
  }
}

std::vector<double> drawn_params(const std::string& name, const image::Size& size, Draws& draws) {
  const auto add = [](std::vector<double>& all, std::initializer_list<double> more) {
    all.insert(all.end(), more);
  };
  std::vector<double> all;
  if (name == "random_crop") {
    const auto [padding, box] = draw_padded_crop(size, {20, 20}, {1, 2, 3, 4}, false, draws);
    // needs_crop, top, left, height, width, needs_pad, padding
    all = {1, double(box.top), double(box.left), 20, 20, 1, 1, 2, 3, 4};
  }
  if (name == "random_resized_crop") {
    const Box box = draw_resized_crop(size, {0.08, 1}, {3.0 / 4, 4.0 / 3}, draws);
    all = {double(box.top), double(box.left), double(box.height), double(box.width)};
  }
  if (name == "random_affine") {
    const AffineRanges ranges{.degrees = {-20, 20},
                              .translate = functional::Point{0.1, 0.3},
                              .scale = Range{0.7, 1.3},
                              .shear = {-5, 5, 3, 20}};
    const functional::Affine drawn = draw_affine(size, ranges, draws);
    all = {drawn.angle,
           drawn.translate.x,
           drawn.translate.y,
           drawn.scale,
           drawn.shear.x,
           drawn.shear.y};
  }
  if (name == "random_perspective") {
    for (const double k : draw_perspective(size, 0.5, draws)) all.push_back(k);
  }
  if (name == "color_jitter") {
    const ColorJitter drawn = draw_color_jitter({.brightness = Range{1 - 0.4, 1.4},
                                                 .contrast = Range{1 - 0.3, 1.3},
                                                 .saturation = Range{1 - 0.2, 1.2},
                                                 .hue = Range{-0.1, 0.1}},
                                                draws);
    for (const int64_t step : drawn.order) all.push_back(static_cast<double>(step));
    add(all, {*drawn.brightness, *drawn.contrast, *drawn.saturation, *drawn.hue});
  }
  if (name == "random_erasing") {
    const auto drawn = draw_erasing(3, size, {.value = {1, 2, 3}}, draws);
    if (drawn) {
      const Box& box = drawn->box;
      all = {double(box.top), double(box.left), double(box.height), double(box.width)};
    } else {
      all = {0, 0, double(size.height), double(size.width)};
    }
  }
  return all;
}

TEST(Torchvision, DrawsTheSameParametersFromTheSameSeeds) {
  if (!test::has_fused_kernels()) GTEST_SKIP() << "LibTorch's default kernels draw other numbers";
  const Json golden = test::read_golden("transforms");  // outlives the loop
  for (const Json& item : golden.at("params")) {
    const std::string name = item.at("name");
    const Json& values = item.at("drawn").at("values");
    const double tolerance = item.at("drawn").at("tolerance");
    for (size_t seed = 0; seed < values.size(); ++seed) {
      TorchDraws draws = torch_draws(seed);
      const image::Size size = seed % 2 == 0 ? image::Size{21, 34} : image::Size{34, 21};
      EXPECT_THAT(drawn_params(name, size, draws),
                  ::testing::Pointwise(::testing::DoubleNear(tolerance),
                                       values[seed].get<std::vector<double>>()))
          << name << item.at("params") << " of seed " << seed;
    }
  }
}

TEST(TorchDraws, AreNotForStepsThatDrawFromAnRngAlone) {
  const auto step = each_sample([](Sample&, Rng&) {})(DataSpec{.name = "images"});
  Sample sample{.tensors = {{"data", golden_image(0)}}};
  TorchDraws draws = torch_draws(0);
  EXPECT_THAT(test::error_of([&] { step->apply(sample, draws); }), HasSubstr("Rng alone"));
}

}  // namespace
}  // namespace muster::data
