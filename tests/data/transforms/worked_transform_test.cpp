// The code of docs/transforms.md and docs/add-a-transform.md.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/data/draws.h"
#include "muster/data/functional/color.h"
#include "muster/data/functional/resize.h"
#include "muster/data/sets/tensor_dataset.h"
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

}  // namespace
