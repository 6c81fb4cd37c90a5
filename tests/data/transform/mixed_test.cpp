// MixUp and CutMix: tests/golden/transforms, section "mixes".
#include "muster/data/transform/mixed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/data/loader/loader.h"
#include "muster/data/sets/tensor_dataset.h"

#include "tests/support/error_of.h"
#include "tests/support/golden.h"

namespace muster::data {
namespace {

using ::testing::HasSubstr;

at::Tensor mixed_images() { return torch::arange(96, torch::kFloat).view({4, 1, 4, 6}).div(96); }

at::Tensor tensor_of(const Json& numbers, at::IntArrayRef shape) {
  return torch::tensor(numbers.get<std::vector<double>>(), torch::kDouble)
      .to(torch::kFloat)
      .view(shape);
}

TEST(Mixed, MixesAsTorchvisionFromTheSameSeeds) {
  const at::Tensor images = mixed_images(), labels = torch::tensor({2, 0, 1, 2});
  const Json golden = test::read_golden("transforms");  // outlives the loop
  for (const Json& item : golden.at("mixes")) {
    TorchDraws draws = torch_draws(item.at("seed").get<uint64_t>());
    const double alpha = item.at("alpha");
    const at::Tensor targets = functional::soft_targets(labels, 3);
    const auto out = item.at("name") == "MixUp"
                         ? functional::mix_up(images, targets, draw_mix_up(alpha, draws))
                         : functional::cut_mix(images, targets, draw_cut_mix(alpha, 4, 6, draws));
    const Json& expected = item.at("out");
    const double tolerance = expected.at("tolerance");
    EXPECT_TRUE(out.images.allclose(tensor_of(expected.at("images"), {4, 1, 4, 6}), 0, tolerance))
        << item.at("name") << item.at("seed");
    EXPECT_TRUE(out.targets.allclose(tensor_of(expected.at("targets"), {4, 3}), 0, tolerance))
        << item.at("name") << item.at("seed");
  }
}

std::shared_ptr<const Dataset> small_dataset() {
  auto generator = torch::make_generator<at::CPUGeneratorImpl>(1);
  return std::make_shared<TensorDataset>(
      torch::rand({40, 1, 8, 8}, generator), torch::arange(40).remainder(2), 2);
}

at::Tensor mixed_epoch(const MixOptions& options, int64_t workers, int64_t epoch) {
  Loader loader(mixed(small_dataset(), options), {.batch_size = 8, .workers = workers, .seed = 3});
  std::vector<at::Tensor> rows;
  for (const Batch& batch : loader.epoch(epoch)) {
    EXPECT_TRUE(batch["target"].sum(1).allclose(torch::ones({batch.size()})));
    rows.push_back(torch::cat({batch["data"].flatten(1), batch["target"]}, 1));
  }
  return torch::cat(rows);
}

TEST(Mixed, HangsOnSeedEpochAndBatchAlone) {
  const MixOptions both{.mix_up_alpha = 0.4, .cut_mix_alpha = 1};
  const at::Tensor one = mixed_epoch(both, 0, 2);
  EXPECT_TRUE(one.equal(mixed_epoch(both, 2, 2)));
  EXPECT_FALSE(one.equal(mixed_epoch(both, 0, 3)));
  const at::Tensor never = mixed_epoch({.mix_up_alpha = 1, .p = 0}, 0, 2);
  EXPECT_TRUE(never.narrow(1, 64, 2).amax(1).equal(torch::ones({40})));
}

TEST(Mixed, RefusesWhatCannotBeMixed) {
  const auto refused = [](const MixOptions& options) {
    return test::error_of([&] { mixed(small_dataset(), options); });
  };
  EXPECT_THAT(refused({}), HasSubstr("an alpha is above 0"));
  EXPECT_THAT(refused({.mix_up_alpha = -1}), HasSubstr("(got -1)"));
  EXPECT_THAT(refused({.mix_up_alpha = 1, .p = 2}), HasSubstr("p is in 0 … 1 (got 2)"));
  const at::Tensor images = mixed_images();
  EXPECT_THAT(test::error_of([&] {
                functional::soft_targets(torch::tensor({0, 3}), 3);
              }),
              HasSubstr("in 0 … 2 (got 3)"));
  EXPECT_THAT(test::error_of([&] {
                functional::mix_up(images.to(torch::kByte), torch::ones({4, 3}), 0.5);
              }),
              HasSubstr("images are floats"));
  EXPECT_THAT(test::error_of([&] {
                functional::cut_mix(images, torch::ones({4, 3}), {.left = 3, .right = 7});
              }),
              HasSubstr("the box lies in"));
}

}  // namespace
}  // namespace muster::data
