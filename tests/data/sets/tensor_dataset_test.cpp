#include "muster/data/sets/tensor_dataset.h"

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"

#include "tests/support/error_of.h"

namespace muster::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::array<int64_t, 3> kIndices{4, 0, 4};

TEST(TensorDataset, CopiesRowsAsTheyAre) {
  for (const auto dtype :
       {torch::kDouble, torch::kFloat, torch::kBFloat16, torch::kLong, torch::kBool}) {
    const at::Tensor rows = torch::randint(2, {6, 2, 3}).to(dtype);
    const TensorDataset data(rows, torch::arange(6));
    const Batch batch = data.get(kIndices);
    EXPECT_TRUE(batch["data"].equal(rows.index_select(0, torch::tensor({4, 0, 4})))) << dtype;
    EXPECT_EQ(batch["data"].scalar_type(), dtype);
    EXPECT_TRUE(batch["target"].equal(torch::tensor({4, 0, 4}, torch::kLong)));
  }
}

TEST(TensorDataset, KeepsTargetsThatAreNoClass) {
  const at::Tensor targets = torch::randn({6, 2});
  EXPECT_TRUE(
      TensorDataset(torch::randn({6, 1}), targets).get(kIndices)["target"][1].equal(targets[0]));
}

TEST(TensorDataset, TakesViewsAndTensorsThatNeedGradients) {
  const at::Tensor base = torch::randn({3, 6}, torch::requires_grad());
  const Batch batch = TensorDataset(base.t(), torch::arange(6)).get(kIndices);
  EXPECT_TRUE(batch["data"][0].equal(base.detach().t()[4]));
  EXPECT_FALSE(batch["data"].requires_grad());
}

TEST(TensorDataset, DescribesItsSamples) {
  const DataSpec spec =
      TensorDataset(torch::zeros({6, 3, 4, 5}, torch::kDouble), torch::arange(6), 6, "cubes")
          .spec();
  EXPECT_EQ(spec.name, "cubes");
  EXPECT_THAT(spec.sample_shape, ElementsAre(3, 4, 5));
  EXPECT_EQ(spec.classes, 6);
  EXPECT_EQ(spec.dtype, torch::kDouble);
  EXPECT_EQ(spec.channels(), 3);
  EXPECT_EQ(spec.height(), 4);
  EXPECT_EQ(spec.width(), 5);
}

TEST(TensorDataset, RefusesTensorsThatDoNotMatch) {
  const auto refusal = [](const at::Tensor& data, const at::Tensor& target) {
    return test::refusal_of([&] { TensorDataset(data, target, 0, "pair"); });
  };
  EXPECT_THAT(refusal(torch::zeros({3, 2}), torch::zeros({4})),
              HasSubstr("dataset pair: data and target have as many rows (got 3 and 4)"));
  EXPECT_THAT(refusal({}, torch::zeros({4})), HasSubstr("without data tensor"));
  EXPECT_THAT(refusal(torch::zeros({4}), torch::tensor(1.0)),
              HasSubstr("the target tensor of a dataset"));
}

}  // namespace
}  // namespace muster::data
