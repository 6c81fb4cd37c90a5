// Loss and top-k against PyTorch's, from tests/golden/clip_and_loss/golden.json.
#include "muster/train/metrics/loss.h"

#include <fstream>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/json.h"

#include "tests/support/golden.h"

namespace muster {
namespace {

const Json& clip_and_loss_golden() {
  static const Json json = test::read_golden("clip_and_loss");
  return json;
}

TEST(CrossEntropy, SmoothsLabelsAsTorchDoes) {
  const Json cases = clip_and_loss_golden().at("loss");
  ASSERT_EQ(cases.size(), 3);
  for (const Json& expected : cases) {
    const Json& result = expected.at("result");
    auto generator = torch::make_generator<at::CPUGeneratorImpl>(901);
    const torch::Tensor scores = (torch::rand({9, 6}, generator) * 6 - 3).requires_grad_();
    const torch::Tensor target = torch::randint(0, 6, {9}, generator, torch::kLong);
    const torch::Tensor loss = train::cross_entropy(scores, target, expected.at("label_smoothing"));
    loss.backward();
    const double tolerance = result.at("tolerance");
    EXPECT_NEAR(loss.item<double>(), result.at("loss").get<double>(), tolerance);
    const torch::Tensor gradient =
        torch::tensor(result.at("gradient").get<std::vector<double>>(), torch::kDouble);
    EXPECT_LE((scores.grad().reshape(-1) - gradient).abs().max().item<double>(), tolerance);
  }
}

TEST(CrossEntropy, RefusesAShareOutOfRange) {
  const torch::Tensor scores = torch::zeros({1, 2}), target = torch::zeros({1}, torch::kLong);
  EXPECT_THROW(train::cross_entropy(scores, target, -0.1), Error);
  EXPECT_THROW(train::cross_entropy(scores, target, 1.1), Error);
}

TEST(CountInTopK, CountsAsTorchTopkDoesWithTies) {
  const auto expected = clip_and_loss_golden().at("top_k").get<std::vector<int64_t>>();
  auto generator = torch::make_generator<at::CPUGeneratorImpl>(902);
  const torch::Tensor scores =
      torch::randint(0, 4, {50, 8}, generator, torch::kLong).to(torch::kFloat);
  const torch::Tensor target = torch::randint(0, 8, {50}, generator, torch::kLong);
  for (int64_t k = 1; k <= 8; ++k) {
    EXPECT_EQ(train::count_in_top_k(scores, target, k), expected[static_cast<size_t>(k - 1)]) << k;
  }
  EXPECT_EQ(train::count_in_top_k(scores, target, 20), 50);
  EXPECT_EQ(train::count_in_top_k(scores.slice(0, 0, 0), target.slice(0, 0, 0), 3), 0);
  EXPECT_THROW(train::count_in_top_k(scores, target, 0), Error);
}

}  // namespace
}  // namespace muster
