// A model's units run again in backward: the memory that this saves, in the fake device's
// allocator.
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/models/model.h"
#include "muster/parallel/activations/unit_checkpoints.h"

#include "tests/testing/accelerator/fake.h"

namespace muster {
namespace {

using testing::FakeAccelerator;

constexpr int64_t kImages = 64;

struct UnitsStep {
  int64_t bytes = 0;  ///< at the peak of forward and backward, beyond what is held before
  at::Tensor gradient;
};

/// The second step: a budget's first forward runs everything again.
UnitsStep step_with(FakeAccelerator& fake, const std::string& rule) {
  torch::manual_seed(4);
  const auto model = models::make_model(
      "transformer",
      {.channels = 1, .height = 16, .width = 16, .classes = 4},
      {{"layers", "6"}, {"width", "32"}, {"feedforward", "128"}, {"dropout", "0"}});
  model->to(test::kFake0);
  parallel::UnitCheckpoints checkpoints(parallel::parse_block_rule(rule, "rule"), model->units());
  const at::Tensor images = torch::ones({kImages, 1, 16, 16}, test::kFake0);
  UnitsStep step;
  for (int i = 0; i < 2; ++i) {
    model->zero_grad();
    const int64_t before = fake.memory(0).live;
    fake.reset_peak(0);
    std::optional<tensor::UnitCallScope> scope(std::in_place, checkpoints);
    const at::Tensor loss = model->forward(images).square().mean();
    scope.reset();
    loss.backward();
    step.bytes = fake.memory(0).peak - before;
  }
  step.gradient = model->parameters()[0].grad().cpu();
  return step;
}

TEST(UnitsOnFake, AreRunAgainForLessMemoryAndTheSameGradients) {
  FakeAccelerator fake;
  const UnitsStep plain = step_with(fake, "off"), all = step_with(fake, "blocks");
  EXPECT_LT(all.bytes, plain.bytes / 2);
  EXPECT_TRUE(test::same_bits(all.gradient, plain.gradient));
  // A budget between the two is kept, but for gradients and what operations take while they run.
  for (const double share : {0.6, 0.8}) {
    const auto budget = static_cast<int64_t>(share * static_cast<double>(plain.bytes));
    const UnitsStep within = step_with(fake, "budget:" + std::to_string(budget));
    EXPECT_LT(within.bytes, budget + (all.bytes / 2)) << share;
    EXPECT_GT(within.bytes, all.bytes) << share;
    EXPECT_TRUE(test::same_bits(within.gradient, plain.gradient));
  }
}

}  // namespace
}  // namespace muster
