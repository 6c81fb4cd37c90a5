// What every transform of the table must hold, and the numbers of torchvision for each.
#include <map>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/text.h"
#include "muster/data/draws.h"
#include "muster/data/transform/transform.h"

#include "tests/support/error_of.h"

namespace muster::data {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kHeight = 19, kWidth = 21;  // enough pixels for equalize to have a say

DataSpec images_spec(at::ScalarType dtype, int64_t channels = 3) {
  return {.name = "images",
          .sample_shape = {channels, kHeight, kWidth},
          .classes = 2,
          .dtype = dtype,
          .mean = std::vector<double>(static_cast<size_t>(channels), 0.3),
          .standard_deviation = std::vector<double>(static_cast<size_t>(channels), 0.7)};
}

/// Parameters with which each does something.
ParamValues params_of(std::string_view name, at::ScalarType dtype) {
  static const std::map<std::string_view, ParamValues> params{
      {"center_crop", {{"size", "5"}}},
      {"color_jitter", {{"brightness", "0.5"}, {"saturation", "0.5"}, {"hue", "0.2"}}},
      {"fit_images", {{"height", "12"}, {"width", "5"}}},
      {"gaussian_blur", {{"kernel_size", "3"}}},
      {"pad", {{"padding", "[1,2]"}}},
      {"rand_augment", {{"num_ops", "3"}}},
      {"random_adjust_sharpness", {{"sharpness_factor", "2"}}},
      {"random_affine", {{"degrees", "40"}, {"shear", "10"}}},
      {"random_crop", {{"size", "6"}, {"padding", "2"}, {"fill", "1"}}},
      {"random_grayscale", {{"p", "0.5"}}},
      {"random_posterize", {{"bits", "2"}}},
      {"random_resized_crop", {{"size", "[4,6]"}}},
      {"random_rotation", {{"degrees", "90"}}},
      {"resize", {{"size", "5"}}}};
  if (name == "normalize" && dtype != at::kByte) return {{"mean", "0.1"}, {"std", "2"}};
  if (name == "random_solarize") return {{"threshold", dtype == at::kByte ? "100" : "0.5"}};
  if (name == "to_dtype") return {{"dtype", dtype == at::kByte ? "float64" : "uint8"}};
  const auto found = params.find(name);
  return found == params.end() ? ParamValues{} : found->second;
}

/// What is made of other steps has two that keep an image's size: an inversion and a flip.
std::shared_ptr<const Transform> made(const TransformEntry& entry,
                                      const ParamValues& params,
                                      const DataSpec& spec) {
  if (entry.compose == nullptr) return entry.make(params, spec);
  std::vector<InnerStep> inside;
  for (const char* name : {"random_invert", "random_horizontal_flip"}) {
    const auto with_p = [name](const char* p) -> TransformMaker {
      return [=](const DataSpec& before) { return transforms().at(name).make({{"p", p}}, before); };
    };
    inside.push_back({.make = with_p("0.8"), .make_surely = with_p("1")});
  }
  return entry.compose(params, inside, spec);
}

at::Tensor some_images(at::ScalarType dtype, int64_t samples, int64_t channels = 3) {
  auto generator = torch::make_generator<at::CPUGeneratorImpl>(7);
  const at::Tensor bytes =
      torch::randint(0, 256, {samples, channels, kHeight, kWidth}, generator, torch::kDouble);
  return dtype == at::kByte ? bytes.to(dtype) : bytes.div(255).to(dtype);
}

TEST(EveryTransform, ABatchIsItsSamplesBitForBitInTheFormThatIsSaid) {
  for (const TransformEntry* entry : transforms()) {
    for (const at::ScalarType dtype : {at::kByte, at::kFloat, at::kDouble}) {
      SCOPED_TRACE(std::string(entry->name) + " " + c10::toString(dtype));
      const auto step = made(*entry, params_of(entry->name, dtype), images_spec(dtype));
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
      EXPECT_EQ(some_differ, entry->name != "clamp_boxes" && entry->name != "filter_boxes");
      Sample once{.tensors = {{"data", images[0]}}, .index = 4}, again = once;
      TorchDraws first = torch_draws(3), second = torch_draws(3);
      step->apply(once, first);
      step->apply(again, second);
      EXPECT_TRUE(once["data"].equal(again["data"])) << "with the numbers of one generator";
    }
  }
}

TEST(EveryTransform, SaysWhatItIsAndRefusesWhatIsNoImageAndUnknownParameters) {
  for (const TransformEntry* entry : transforms()) {
    SCOPED_TRACE(std::string(entry->name));
    EXPECT_FALSE(entry->help.empty());
    const DataSpec rows{.name = "rows", .sample_shape = {4}};
    EXPECT_THAT(test::error_of([&] { made(*entry, params_of(entry->name, at::kFloat), rows); }),
                HasSubstr("of rows: a sample is an image"));
    EXPECT_THAT(test::error_of([&] {
                  made(*entry, {{"nonsense", "1"}}, images_spec(at::kByte));
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

TEST(EveryTransform, TakesImagesWhoseSizesDiffer) {
  for (const TransformEntry* entry : transforms()) {
    if (entry->name == "fit_images" || entry->name == "normalize") continue;  // of one size
    SCOPED_TRACE(std::string(entry->name));
    DataSpec spec = images_spec(at::kByte);
    spec.sample_shape = {3, 0, 0};
    const auto step = made(*entry, params_of(entry->name, at::kByte), spec);
    for (const auto& [height, width] : {std::pair<int64_t, int64_t>{9, 7}, {30, 12}, {6, 41}}) {
      Sample sample{.tensors = {{"data", torch::randint(256, {3, height, width}, torch::kByte)}}};
      Rng rng(1, 2, 3);
      step->apply(sample, rng);
      const auto& after = step->spec().sample_shape;
      if (after[1] > 0) {
        EXPECT_EQ(sample["data"].sizes(), at::IntArrayRef(after));
      }
      EXPECT_EQ(sample["data"].dim(), 3);
    }
  }
}

/// An image with a few squares, the same in each channel, and what lies where they do.
Sample with_targets() {
  at::Tensor image = torch::zeros({3, kHeight, kWidth}, torch::kByte);
  for (const auto& [row, column, value] :
       std::vector<std::array<int64_t, 3>>{{2, 3, 250}, {9, 14, 200}, {13, 5, 150}})
    image.narrow(1, row, 4).narrow(2, column, 5).fill_(value);
  return {.tensors = {{"data", image},
                      {"boxes", torch::tensor({{3.0, 2.0, 8.0, 6.0}, {14.0, 9.0, 19.0, 13.0}})},
                      {"mask", image[0].clone()},
                      {"keypoints", torch::tensor({{5.0, 4.0}, {16.0, 11.0}})}}};
}

// Note [Typed targets]: a step moves them all by one draw, leaves them all, or refuses them.
TEST(EveryTransform, MovesTypedTargetsTogether) {
  for (const TransformEntry* entry : transforms()) {
    ParamValues params = params_of(entry->name, at::kByte);
    for (const Param& param : entry->params) {
      if (param.name == "interpolation") params["interpolation"] = "nearest";  // as masks are
      if (param.name == "fill") params["fill"] = "0";
    }
    const auto step = made(*entry, params, images_spec(at::kByte));
    int moved = 0;
    for (int64_t index = 0; index < 8; ++index) {
      SCOPED_TRACE(concat(entry->name, " of sample ", index));
      const Sample before = with_targets();
      Sample plain{.tensors = {{"data", before["data"]}}}, sample = before;
      Rng rng(1, 2, index), same(1, 2, index);
      step->apply(plain, same);
      const std::string refusal = test::error_of([&] { step->apply(sample, rng); });
      if (refusal != test::kNoError) {
        EXPECT_THAT(refusal, HasSubstr("of a sample with boxes, masks or keypoints"));
        continue;
      }
      EXPECT_TRUE(sample["data"].equal(plain["data"])) << "targets change what is drawn";
      EXPECT_EQ(rng.bits64(), same.bits64());
      EXPECT_EQ(sample["mask"].sizes(), sample["data"].sizes().slice(1));
      if (sample["mask"].is_same(before["mask"])) {
        EXPECT_TRUE(sample["keypoints"].is_same(before["keypoints"]));
        continue;
      }
      ++moved;
      EXPECT_FALSE(sample["keypoints"].is_same(before["keypoints"]));
      EXPECT_FALSE(sample["boxes"].is_same(before["boxes"]));
      // Steps that are made of others may have changed colours as well: then where marks are, counts.
      const at::Tensor marks = sample["data"][0].ne(sample["data"][0][0][0]);
      if (entry->compose == nullptr && entry->name != "fit_images") {
        EXPECT_TRUE(marks.equal(sample["mask"].ne(sample["mask"][0][0])));
      }
    }
    if (entry->name.find("crop") != std::string_view::npos || entry->name == "random_rotation") {
      EXPECT_EQ(moved, 8) << entry->name;
    }
  }
}

// torchvision 0.29: F.normalize(torch.tensor([[[0.25]], [[0.5]], [[0.5]]]), [0.3, 0.1, 0.2], [0.7, 2, 0.5]).
TEST(Normalize, TakesANumberForEachChannel) {
  const at::Tensor image = torch::tensor({0.25F, 0.5F, 0.5F}).view({3, 1, 1});
  const at::Tensor out =
      changed("normalize", {{"mean", "[0.3,0.1,0.2]"}, {"std", "[0.7,2,0.5]"}}, image);
  EXPECT_TRUE(out.flatten().equal(torch::tensor({-0.0714285895F, 0.200000003F, 0.600000024F})));
}

std::string refused(const char* name, const ParamValues& params, at::ScalarType dtype = at::kByte) {
  return test::error_of([&] { transforms().at(name).make(params, images_spec(dtype)); });
}

TEST(EveryTransform, RefusesParametersOutOfRange) {
  EXPECT_THAT(refused("random_crop", {{"size", "20"}}), HasSubstr("with its padding, 19"));
  EXPECT_THAT(refused("random_crop", {{"padding", "-1"}}), HasSubstr("(got -1)"));
  EXPECT_THAT(refused("random_crop", {{"fill", "256"}}), HasSubstr("a byte"));
  EXPECT_THAT(refused("random_crop", {{"padding", "[1,2,3]"}}), HasSubstr("(got [1,2,3])"));
  EXPECT_THAT(refused("random_crop", {{"padding_mode", "zero"}}), HasSubstr("edge, reflect"));
  EXPECT_THAT(refused("center_crop", {}), HasSubstr("each in 1 … 32768 (got [])"));
  EXPECT_THAT(refused("center_crop", {{"size", "[4,0]"}}), HasSubstr("(got [4,0])"));
  EXPECT_THAT(refused("pad", {{"fill", "[1,2]"}}), HasSubstr("one for each of 3 channels"));
  EXPECT_THAT(refused("resize", {}), HasSubstr("it is given, or max_size (got none)"));
  EXPECT_THAT(refused("resize", {{"size", "9"}, {"max_size", "9"}}),
              HasSubstr("above the size, 9"));
  EXPECT_THAT(refused("resize", {{"size", "[9,8]"}, {"max_size", "99"}}),
              HasSubstr("one size alone"));
  EXPECT_THAT(refused("resize", {{"size", "9"}, {"interpolation", "cubic"}}), HasSubstr("bicubic"));
  EXPECT_THAT(refused("resize", {{"size", "9"}, {"interpolation", "box"}}),
              HasSubstr("Pillow has"));
  EXPECT_THAT(
      refused("resize", {{"size", "9"}, {"interpolation", "lanczos"}, {"antialias", "false"}}),
      HasSubstr("lanczos needs antialias"));
  EXPECT_THAT(refused("random_resized_crop", {{"size", "9"}, {"scale", "[1,0.5]"}}),
              HasSubstr("[least,most], in 0 … 1 (got [1,0.5])"));
  EXPECT_THAT(refused("color_jitter", {{"hue", "0.6"}}), HasSubstr("in -0.5 … 0.5"));
  EXPECT_THAT(refused("random_rotation", {{"degrees", "-3"}}), HasSubstr("at least 0"));
  EXPECT_THAT(refused("random_rotation", {{"degrees", "3"}, {"interpolation", "bicubic"}}),
              HasSubstr("nearest or bilinear"));
  EXPECT_THAT(refused("random_affine", {{"degrees", "3"}, {"translate", "[0.2,2]"}}),
              HasSubstr("0 … 1 (got 2)"));
  EXPECT_THAT(refused("gaussian_blur", {{"kernel_size", "4"}}), HasSubstr("odd (got 4)"));
  EXPECT_THAT(refused("random_erasing", {{"value", "none"}}), HasSubstr("noise is for floats"));
  EXPECT_THAT(refused("random_posterize", {}), HasSubstr("0 … 8 (got -1)"));
  EXPECT_THAT(refused("random_solarize", {{"threshold", "2"}}, at::kFloat), HasSubstr("0 … 1"));
  EXPECT_THAT(refused("rand_augment", {{"magnitude", "31"}}), HasSubstr("0 … 30 (got 31)"));
  EXPECT_THAT(refused("auto_augment", {{"policy", "coco"}}), HasSubstr("cifar10"));
  EXPECT_THAT(refused("random_horizontal_flip", {{"p", "1.5"}}), HasSubstr("0 … 1 (got 1.5)"));
  EXPECT_THAT(refused("normalize", {{"mean", "0.5"}}), HasSubstr("both given"));
  EXPECT_THAT(refused("normalize", {{"mean", "0"}, {"std", "0"}}), HasSubstr("above 0"));
  EXPECT_THAT(refused("normalize", {}, at::kFloat), HasSubstr("of floats, mean and std are said"));
  EXPECT_THAT(refused("fit_images", {{"channels", "4"}}), HasSubstr("got 3 to 4"));
}

}  // namespace
}  // namespace muster::data
