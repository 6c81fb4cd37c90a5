// The code of docs/transforms.md and docs/add-a-transform.md.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/data/draws.h"
#include "muster/data/functional/color.h"
#include "muster/data/functional/resize.h"
#include "muster/data/sets/tensor_dataset.h"
#include "muster/data/transform/compose.h"
#include "muster/data/transform/targets.h"
#include "muster/data/transform/transformed.h"

namespace {

torch::Tensor some_photo() {
  return torch::arange(3 * 24 * 32).view({3, 24, 32}).remainder(251).to(torch::kByte);
}

TEST(WorkedTransform, TakesTorchvisionsNumbers) {
  const torch::Tensor image = some_photo();
  muster::data::DataSpec spec{
      .name = "photo", .sample_shape = image.sizes().vec(), .dtype = torch::kByte};
  const std::string chain = "random_resized_crop:size=16|color_jitter:hue=0.1";
  muster::data::Sample sample{.tensors = {{"data", image}}};
  muster::data::TorchDraws draws = muster::data::torch_draws(5);
  for (const auto& maker : muster::data::parse_transforms(chain)) {
    const auto step = maker(spec);
    step->apply(sample, draws);
    spec = step->spec();
  }
  EXPECT_EQ(sample["data"].sizes(), at::IntArrayRef(spec.sample_shape));
}

TEST(WorkedTransform, HasFunctionsForWhatChainsDo) {
  const torch::Tensor image = some_photo();
  namespace functional = muster::data::functional;
  const torch::Tensor small = functional::resize(image, 12, 16);
  const torch::Tensor warm = functional::adjust_saturation(small, 1.5);
  EXPECT_EQ(warm.sizes(), (std::vector<int64_t>{3, 12, 16}));
  EXPECT_FALSE(warm.equal(small));
}

TEST(WorkedTransform, IsAFunctionForOneProgram) {
  const auto photos = std::make_shared<muster::data::TensorDataset>(
      some_photo().unsqueeze(0), torch::zeros({1}, torch::kLong));
  const auto noisy = muster::data::transformed(
      photos, {muster::data::each_sample([](muster::data::Sample& sample, muster::data::Rng& rng) {
        const auto shift = static_cast<int64_t>(rng.uniform(-20, 20));
        sample["data"] = sample["data"].to(torch::kInt).add(shift).clamp(0, 255).to(torch::kByte);
      })});
  const int64_t first = 0;
  const auto at_epoch = [&](int64_t epoch) {
    return noisy->get({&first, 1}, {.seed = 1, .epoch = epoch})["data"];
  };
  EXPECT_TRUE(at_epoch(0).equal(at_epoch(0)));
  EXPECT_FALSE(at_epoch(0).equal(at_epoch(1)));
}

TEST(WorkedTransform, MayBeMadeOfOthersInCode) {
  const auto photos = std::make_shared<muster::data::TensorDataset>(
      some_photo().expand({8, 3, 24, 32}).contiguous(), torch::zeros({8}, torch::kLong));
  using namespace muster;
  const auto noise = data::each_sample([](data::Sample& sample, data::Rng& rng) {
    sample["data"] = sample["data"] + 0.1 * rng.normal();
  });
  const auto steps = data::parse_transforms("to_dtype|random_horizontal_flip:p=1");
  const auto augmented =
      data::transformed(photos, {steps[0], data::one_of({noise, steps[1]}, {.p = 0.8})});
  const std::vector<int64_t> indices{0, 1, 2, 3, 4, 5, 6, 7};
  const torch::Tensor some = augmented->get(indices, {.seed = 3})["data"];
  EXPECT_TRUE(some.equal(augmented->get(indices, {.seed = 3})["data"]));
  EXPECT_FALSE(some[0].equal(some[1]) && some[1].equal(some[2]) && some[2].equal(some[3]));
}

TEST(WorkedTransform, MovesBoxesMasksAndKeypointsWithTheImage) {
  const torch::Tensor image = some_photo();
  using namespace muster;
  data::Sample sample{
      .tensors = {{"data", image},  // [3, 24, 32]
                  {"boxes",
                   torch::tensor({{4.0, 2.0, 14.0, 12.0},  // [N, 4]
                                  {27.0, 0.0, 32.0, 24.0}})},
                  {"labels", torch::tensor({7, 3})},                           // [N]
                  {"mask", image[0].gt(100)},                                  // [24, 32]
                  {"keypoints", torch::tensor({{5.0, 3.0}, {30.0, 20.0}})}}};  // [K, 2]
  data::DataSpec spec{.name = "photo", .sample_shape = image.sizes().vec(), .dtype = torch::kByte};
  data::Rng rng(/*seed=*/1, /*epoch=*/0, /*index=*/0);
  for (const auto& maker : data::parse_transforms("random_horizontal_flip:p=1|center_crop:size=24|"
                                                  "filter_boxes:min_visibility=0.5")) {
    const auto step = maker(spec);
    step->apply(sample, rng);
    spec = step->spec();
  }
  EXPECT_TRUE(sample["boxes"].equal(torch::tensor({{14.0, 2.0, 24.0, 12.0}})));
  EXPECT_TRUE(sample["labels"].equal(torch::tensor({7})));  // of the other box a fifth was left
  EXPECT_TRUE(sample["keypoints"].equal(torch::tensor({{22.0, 3.0}, {-3.0, 20.0}})));
  EXPECT_TRUE(sample["mask"].equal(sample["data"][0].gt(100)));
}

}  // namespace
