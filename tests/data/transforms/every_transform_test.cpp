// What every transform of the table must hold, and the numbers of torchvision for each.
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/data/transform/transform.h"

#include "tests/support/error_of.h"

namespace muster::data {
namespace {

using ::testing::HasSubstr;

DataSpec images_spec(at::ScalarType dtype, int64_t channels = 3) {
  return {.name = "images",
          .sample_shape = {channels, 9, 7},
          .classes = 2,
          .dtype = dtype,
          .mean = std::vector<double>(static_cast<size_t>(channels), 0.3),
          .standard_deviation = std::vector<double>(static_cast<size_t>(channels), 0.7)};
}

/// Parameters with which each does something.
ParamValues params_of(std::string_view name, at::ScalarType dtype) {
  if (name == "center_crop") return {{"size", "5"}};
  if (name == "random_crop") return {{"size", "6"}, {"padding", "2"}, {"fill", "1"}};
  if (name == "fit_images") return {{"height", "12"}, {"width", "5"}};
  if (name == "normalize" && dtype != at::kByte) return {{"mean", "0.1"}, {"std", "2"}};
  return {};
}

at::Tensor some_images(at::ScalarType dtype, int64_t samples, int64_t channels = 3) {
  auto generator = torch::make_generator<at::CPUGeneratorImpl>(7);
  return torch::randint(0, 256, {samples, channels, 9, 7}, generator, torch::kDouble).to(dtype);
}

TEST(EveryTransform, ABatchIsItsSamplesBitForBitInTheFormThatIsSaid) {
  for (const TransformEntry* entry : transforms()) {
    for (const at::ScalarType dtype : {at::kByte, at::kFloat, at::kDouble}) {
      SCOPED_TRACE(std::string(entry->name) + " " + c10::toString(dtype));
      const auto step = entry->make(params_of(entry->name, dtype), images_spec(dtype));
      const at::Tensor images = some_images(dtype, 16);
      const std::vector<int64_t> indices{5, 3, 3, 900, 0, 1, 2, 4, 6, 7, 8, 9, 10, 11, 12, 13};
      const SampleContext context{.seed = 2, .epoch = 6, .position = 1};
      Batch batch{.tensors = {{"data", images.clone()}}, .indices = indices};
      const at::Tensor before = batch["data"];
      const bool has_batch_way = step->apply(batch, {indices, context});
      EXPECT_TRUE(before.equal(images)) << "the batch's own tensor was written to";
      bool some_differ = false;
      for (size_t i = 0; i < indices.size(); ++i) {
        Sample sample{.tensors = {{"data", images[static_cast<int64_t>(i)]}}, .index = indices[i]};
        Rng rng(context, indices[i]);
        step->apply(sample, rng);
        EXPECT_EQ(sample["data"].sizes(), at::IntArrayRef(step->spec().sample_shape));
        EXPECT_EQ(sample["data"].scalar_type(), step->spec().dtype);
        if (has_batch_way) {
          EXPECT_TRUE(batch["data"][static_cast<int64_t>(i)].equal(sample["data"])) << i;
        }
        some_differ = some_differ || !sample["data"].equal(images[static_cast<int64_t>(i)]);
      }
      EXPECT_TRUE(before.equal(images)) << "a sample's own tensor was written to";
      EXPECT_TRUE(some_differ);
    }
  }
}

TEST(EveryTransform, SaysWhatItIsAndRefusesWhatIsNoImageAndUnknownParameters) {
  for (const TransformEntry* entry : transforms()) {
    SCOPED_TRACE(std::string(entry->name));
    EXPECT_FALSE(entry->help.empty());
    const DataSpec rows{.name = "rows", .sample_shape = {4}};
    EXPECT_THAT(test::error_of([&] { entry->make(params_of(entry->name, at::kFloat), rows); }),
                HasSubstr("of rows: a sample is an image"));
    EXPECT_THAT(test::error_of([&] {
                  entry->make({{"nonsense", "1"}}, images_spec(at::kByte));
                }),
                HasSubstr("nonsense"));
  }
}

/// The step alone, over one sample.
at::Tensor changed(const char* name,
                   const ParamValues& params,
                   const at::Tensor& image,
                   Rng rng = Rng(0, 0, 0)) {
  DataSpec spec{.name = "one",
                .sample_shape = image.sizes().vec(),
                .dtype = image.scalar_type(),
                .mean = {0.3},
                .standard_deviation = {0.7}};
  Sample sample{.tensors = {{"data", image}}};
  transforms().at(name).make(params, spec)->apply(sample, rng);
  return sample["data"];
}

// The first row of torchvision 0.30's center_crop of an h x h image, as (h, size, row).
TEST(CenterCrop, RoundsHalvesAsTorchvisionDoes) {
  for (const auto& [height, size, row] : std::vector<std::array<int64_t, 3>>{
           {28, 25, 2}, {5, 2, 2}, {4, 3, 0}, {6, 3, 2}, {7, 4, 2}, {28, 24, 2}, {9, 4, 2}}) {
    const at::Tensor image = torch::arange(height * height).view({1, height, height});
    const at::Tensor cut =
        changed("center_crop", {{"size", std::to_string(size)}}, image.to(torch::kFloat));
    EXPECT_EQ(cut[0][0][0].item<int64_t>(), row * height + row);
  }
}

// torchvision's F.crop(F.pad(x, [1], fill=7), 2, 3, 3, 3) is the last of those below.
TEST(RandomCrop, CutsOutOfThePaddedImageAtEveryPlace) {
  const at::Tensor image = torch::arange(12, torch::kByte).view({1, 3, 4});
  const at::Tensor padded = torch::constant_pad_nd(image, {1, 1, 1, 1}, 7);
  EXPECT_TRUE(padded.narrow(1, 2, 3).narrow(2, 3, 3).equal(
      torch::tensor({{{6, 7, 7}, {10, 11, 7}, {7, 7, 7}}}, torch::kByte)));
  std::array<std::array<int, 4>, 3> seen{};
  constexpr int kDraws = 1200;
  for (int i = 0; i < kDraws; ++i) {
    const at::Tensor cut = changed(
        "random_crop", {{"size", "3"}, {"padding", "1"}, {"fill", "7"}}, image, Rng(1, 0, i));
    int found = 0;
    for (int64_t top = 0; top < 3; ++top) {
      for (int64_t left = 0; left < 4; ++left) {
        if (!cut.equal(padded.narrow(1, top, 3).narrow(2, left, 3))) continue;
        ++seen[top][left];
        ++found;
      }
    }
    ASSERT_EQ(found, 1);
  }
  for (const auto& row : seen) {
    for (const int count : row) EXPECT_NEAR(count, kDraws / 12.0, 5 * std::sqrt(kDraws / 12.0));
  }
}

TEST(RandomHorizontalFlip, FlipsAShareOfTheSamplesAsTorchvisionDoes) {
  const at::Tensor image = torch::arange(12, torch::kByte).view({1, 3, 4});
  const at::Tensor flipped =
      torch::tensor({{{3, 2, 1, 0}, {7, 6, 5, 4}, {11, 10, 9, 8}}}, torch::kByte);
  int flips = 0;
  constexpr int kDraws = 1000;
  for (int i = 0; i < kDraws; ++i) {
    const at::Tensor out = changed("random_horizontal_flip", {{"p", "0.2"}}, image, Rng(1, 0, i));
    ASSERT_TRUE(out.equal(flipped) || out.equal(image));
    flips += out.equal(flipped) ? 1 : 0;
  }
  EXPECT_NEAR(flips, 200, 5 * std::sqrt(kDraws * 0.2 * 0.8));
  EXPECT_TRUE(changed("random_horizontal_flip", {{"p", "1"}}, image).equal(flipped));
  EXPECT_TRUE(changed("random_horizontal_flip", {{"p", "0"}}, image).equal(image));
}

// torchvision 0.30: F.normalize(torch.tensor([0.25, 0.5]).view(1, 1, 2), [0.3], [0.7]).
TEST(Normalize, TakesFloatsAsTorchvisionDoes) {
  const at::Tensor image = torch::tensor({0.25F, 0.5F}).view({1, 1, 2});
  const at::Tensor out = changed("normalize", {{"mean", "0.3"}, {"std", "0.7"}}, image);
  EXPECT_EQ(out[0][0][0].item<float>(), -0x1.24924ep-4F);
  EXPECT_EQ(out[0][0][1].item<float>(), 0x1.249248p-2F);
}

std::string refused(const char* name, const ParamValues& params, at::ScalarType dtype = at::kByte) {
  return test::error_of([&] { transforms().at(name).make(params, images_spec(dtype)); });
}

TEST(EveryTransform, RefusesParametersOutOfRange) {
  EXPECT_THAT(refused("random_crop", {{"size", "8"}}), HasSubstr("with its padding, 7"));
  EXPECT_THAT(refused("random_crop", {{"padding", "-1"}}), HasSubstr("(got -1)"));
  EXPECT_THAT(refused("random_crop", {{"fill", "256"}}), HasSubstr("a byte"));
  EXPECT_THAT(refused("center_crop", {}), HasSubstr("at least 1, at most the image's 7 (got 0)"));
  EXPECT_THAT(refused("random_horizontal_flip", {{"p", "1.5"}}), HasSubstr("0 … 1 (got 1.5)"));
  EXPECT_THAT(refused("normalize", {{"mean", "0.5"}}), HasSubstr("both given"));
  EXPECT_THAT(refused("normalize", {{"mean", "0"}, {"std", "0"}}), HasSubstr("above 0"));
  EXPECT_THAT(refused("normalize", {}, at::kFloat), HasSubstr("has normalised them"));
  EXPECT_THAT(refused("fit_images", {{"channels", "4"}}), HasSubstr("got 3 to 4"));
}

}  // namespace
}  // namespace muster::data
