// Clipping against torch.nn.utils.clip_grad_norm_, from tests/golden/clip_and_loss/golden.json.
#include "muster/optim/clip.h"

#include <cmath>
#include <fstream>
#include <limits>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/json.h"

#include "tests/support/distance.h"
#include "tests/support/golden.h"

namespace muster {
namespace {

struct Parameters {
  torch::Tensor a, none = torch::zeros({3}), b;

  explicit Parameters(torch::Dtype dtype) {
    auto generator = torch::make_generator<at::CPUGeneratorImpl>(900);
    a = torch::zeros({6, 5}, dtype);
    b = torch::zeros({7}, dtype);
    a.mutable_grad() = (torch::rand({6, 5}, generator) * 4 - 2).to(dtype);
    b.mutable_grad() = (torch::rand({7}, generator) * 4 - 2).to(dtype);
  }
  std::vector<torch::Tensor> all() const { return {a, none, b}; }
};

TEST(ClipGradNorm, ScalesAsTorchDoes) {
  const Json cases = test::read_golden("clip_and_loss").at("clip");
  ASSERT_EQ(cases.size(), 12);
  for (const Json& expected : cases) {
    const Json& result = expected.at("result");
    const double tolerance = result.at("tolerance");
    Parameters parameters(expected.at("dtype") == "float64" ? torch::kDouble : torch::kFloat);
    const Json& type = expected.at("norm_type");
    const torch::Tensor norm = optim::clip_grad_norm(
        parameters.all(),
        expected.at("max_norm"),
        type.is_string() ? std::numeric_limits<double>::infinity() : type.get<double>());
    EXPECT_NEAR(norm.item<double>(), result.at("norm").get<double>(), 10 * tolerance);
    EXPECT_LE(test::distance(parameters.a.grad(), result.at("a")), tolerance) << expected.dump();
    EXPECT_LE(test::distance(parameters.b.grad(), result.at("b")), tolerance) << expected.dump();
    EXPECT_FALSE(parameters.none.grad().defined());
  }
}

TEST(ClipGradNorm, LeavesShortGradientsAsTheyAreToTheBit) {
  Parameters parameters(torch::kFloat);
  const torch::Tensor before = parameters.a.grad().clone();
  optim::clip_grad_norm(parameters.all(), 1e9);
  EXPECT_TRUE(torch::equal(parameters.a.grad(), before));
}

TEST(ClipGradNorm, TakesDtypesTogether) {
  Parameters wide(torch::kDouble), mixed(torch::kDouble);
  mixed.b = torch::zeros({7});
  mixed.b.mutable_grad() = wide.b.grad().to(torch::kFloat);
  const double expected = optim::clip_grad_norm(wide.all(), 1).item<double>();
  EXPECT_NEAR(optim::clip_grad_norm(mixed.all(), 1).item<double>(), expected, 1e-6);
  EXPECT_EQ(mixed.b.grad().scalar_type(), torch::kFloat);
  EXPECT_LE((mixed.b.grad() - wide.b.grad()).abs().max().item<double>(), 1e-6);
}

TEST(ClipGradNorm, ReturnsANormThatIsNotFiniteIfAGradientIsNot) {
  Parameters parameters(torch::kFloat);
  parameters.b.mutable_grad()[2] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(optim::clip_grad_norm(parameters.all(), 1).item<float>()));
  parameters = Parameters(torch::kFloat);
  parameters.b.mutable_grad()[2] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isinf(optim::clip_grad_norm(parameters.all(), 1).item<float>()));
}

TEST(ClipGradNorm, IsZeroWithoutGradients) {
  EXPECT_EQ(optim::clip_grad_norm({torch::zeros({2})}, 1).item<float>(), 0);
}

TEST(ClipGradNorm, RefusesALengthBelowZero) {
  EXPECT_THROW(optim::clip_grad_norm({}, -1), Error);
  EXPECT_THROW(optim::clip_grad_norm({}, std::nan("")), Error);
  EXPECT_THROW(optim::clip_grad_norm({}, 1, 0), Error);
}

TEST(ClipGradValue, BoundsEachElementAsTorchDoes) {
  Parameters own(torch::kFloat), theirs(torch::kFloat);
  own.a.grad()[0][0] = theirs.a.grad()[0][0] = std::nan("");
  own.a.grad()[0][1] = theirs.a.grad()[0][1] = -std::numeric_limits<float>::infinity();
  optim::clip_grad_value(own.all(), 0.75);
  torch::nn::utils::clip_grad_value_(std::vector<torch::Tensor>{theirs.a, theirs.b}, 0.75);
  EXPECT_TRUE(torch::equal(own.b.grad(), theirs.b.grad()));
  EXPECT_TRUE(torch::allclose(own.a.grad(), theirs.a.grad(), 0, 0, /*equal_nan=*/true));
  EXPECT_TRUE(std::isnan(own.a.grad()[0][0].item<float>()));
  EXPECT_EQ(own.a.grad()[0][1].item<float>(), -0.75F);
  EXPECT_FALSE(own.none.grad().defined());
}

TEST(ClipGradValue, RefusesALimitThatIsNone) {
  EXPECT_THROW(optim::clip_grad_value({}, -1), Error);
  EXPECT_THROW(optim::clip_grad_value({}, std::nan("")), Error);
}

}  // namespace
}  // namespace muster
