// Splits: lists of indices that a seed draws.
#include "muster/data/sets/split.h"

#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/data/sets/tensor_dataset.h"

#include "tests/support/error_of.h"

namespace muster::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Sample i is the number i.
std::shared_ptr<const Dataset> counted(int64_t samples) {
  return std::make_shared<TensorDataset>(
      tensor::NamedTensorList{{"number", torch::arange(samples)}});
}

std::vector<int64_t> numbers_of(const Dataset& dataset) {
  std::vector<int64_t> all(static_cast<size_t>(dataset.size()));
  std::iota(all.begin(), all.end(), 0);
  const Batch batch = dataset.get(all);
  EXPECT_EQ(batch.indices, all);
  const at::Tensor& numbers = batch["number"];
  return {numbers.const_data_ptr<int64_t>(), numbers.const_data_ptr<int64_t>() + numbers.numel()};
}

// torch.utils.data.random_split(range(10), [6, 3, 1], torch.Generator().manual_seed(3)), PyTorch 2.15.0
TEST(RandomSplit, HasPyTorchsSamples) {
  const SubsetList parts = random_split(counted(10), {6, 3, 1}, 3);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_THAT(numbers_of(*parts[0]), ElementsAre(6, 0, 3, 7, 8, 5));
  EXPECT_THAT(numbers_of(*parts[1]), ElementsAre(1, 9, 2));
  EXPECT_THAT(numbers_of(*parts[2]), ElementsAre(4));
}

TEST(RandomSplit, RefusesLengthsThatDoNotAddUp) {
  EXPECT_THAT(test::error_of([] {
                random_split(counted(10), {6, 3}, 0);
              }),
              HasSubstr("add up to its 10 samples (got 6 + 3)"));
  EXPECT_THAT(test::error_of([] {
                random_split(counted(10), {INT64_MAX, INT64_MAX, 12}, 0);
              }),
              HasSubstr("9223372036854775807 + 9223372036854775807 + 12"));
  EXPECT_THAT(test::error_of([] {
                random_split(counted(10), {11, -1}, 0);
              }),
              HasSubstr("(got 11 + -1)"));
}

TEST(StratifiedSplit, TakesAnEqualShareOfEachClass) {
  const at::Tensor targets = torch::cat({torch::zeros({30}, torch::kLong),
                                         torch::full({10}, 7, torch::kLong),
                                         torch::full({3}, 2, torch::kLong)});
  const SubsetList parts = stratified_split(counted(43), targets, 0.2, 1);
  std::map<int64_t, int64_t> taken;
  for (const int64_t number : numbers_of(*parts[1])) ++taken[targets[number].item<int64_t>()];
  EXPECT_EQ(taken, (std::map<int64_t, int64_t>{{0, 6}, {2, 1}, {7, 2}}));  // 20 %, to the nearest
  std::vector<int64_t> both = numbers_of(*parts[0]);
  EXPECT_TRUE(std::is_sorted(both.begin(), both.end()));
  const std::vector<int64_t> second = numbers_of(*parts[1]);
  both.insert(both.end(), second.begin(), second.end());
  std::sort(both.begin(), both.end());
  EXPECT_EQ(both, numbers_of(*counted(43)));
  EXPECT_EQ(numbers_of(*stratified_split(counted(43), targets, 0.2, 1)[1]), second);
  EXPECT_NE(numbers_of(*stratified_split(counted(43), targets, 0.2, 2)[1]), second);
}

TEST(StratifiedSplit, RefusesTargetsThatAreNotTheSamples) {
  EXPECT_THAT(test::error_of([] { stratified_split(counted(4), torch::zeros({4}), 0.5, 0); }),
              HasSubstr("[4] int64 on the CPU"));
  EXPECT_THAT(
      test::error_of([] { stratified_split(counted(4), torch::zeros({4}, torch::kLong), 1.5, 0); }),
      HasSubstr("0 to 1 (got 1.5)"));
}

// The last part of random_split(range(10), [7, 3]) for the generator above: 9, 2, 4.
TEST(RandomSample, IsTheLastPartOfPyTorchsRandomSplit) {
  EXPECT_THAT(random_sample(10, 3, 3), ElementsAre(2, 4, 9));
  EXPECT_EQ(random_sample(10, 10, 1).size(), 10U);
  EXPECT_TRUE(random_sample(10, 0, 1).empty());
  EXPECT_THAT(test::error_of([] { random_sample(10, 11, 0); }), HasSubstr("0 to 10"));
}

TEST(StratifiedSample, HasOfEachClassItsShareAndAsManyInAllAsAskedFor) {
  // 17, 9, 5 and 1 of 32 samples. The shares of 8 are 4.25, 2.25, 1.25 and 0.25: down to 4, 2, 1, 0,
  // and the one that is left goes to the first of those that lost as much. Of 10: 5.3, 2.8, 1.6, 0.3.
  const at::Tensor targets = torch::cat({torch::full({9}, 3, torch::kLong),
                                         torch::zeros({17}, torch::kLong),
                                         torch::full({1}, 9, torch::kLong),
                                         torch::full({5}, 4, torch::kLong)});
  const auto taken = [&](int64_t count, uint64_t seed) {
    std::map<int64_t, int64_t> all;
    for (const int64_t number : stratified_sample(targets, count, seed))
      ++all[targets[number].item<int64_t>()];
    return all;
  };
  EXPECT_EQ(taken(8, 1), (std::map<int64_t, int64_t>{{0, 5}, {3, 2}, {4, 1}}));
  EXPECT_EQ(taken(10, 1), (std::map<int64_t, int64_t>{{0, 5}, {3, 3}, {4, 2}}));
  EXPECT_EQ(taken(32, 2).size(), 4U);
  const std::vector<int64_t> once = stratified_sample(targets, 10, 1);
  EXPECT_TRUE(std::is_sorted(once.begin(), once.end()));
  EXPECT_EQ(stratified_sample(targets, 10, 1), once);
  EXPECT_NE(stratified_sample(targets, 10, 2), once);
  EXPECT_THAT(test::error_of([&] { stratified_sample({}, 1, 0); }), HasSubstr("[N] int64"));
  EXPECT_THAT(test::error_of([&] { stratified_sample(targets, 33, 0); }), HasSubstr("0 to 32"));
}

TEST(HoldOut, PartsTheSamplesInTheirOrder) {
  const SubsetList parts = hold_out(counted(6), {5, 0, 3});
  EXPECT_THAT(numbers_of(*parts[0]), ElementsAre(1, 2, 4));
  EXPECT_THAT(numbers_of(*parts[1]), ElementsAre(0, 3, 5));
  EXPECT_THAT(test::error_of([] {
                hold_out(counted(6), {2, 2});
              }),
              HasSubstr("each is there once (got 2)"));
  EXPECT_THAT(test::error_of([] {
                hold_out(counted(6), {1, 6});
              }),
              HasSubstr("among 0 to 5 (got 6)"));
  EXPECT_THAT(test::error_of([] { hold_out(counted(6), {-1}); }), HasSubstr("(got -1)"));
}

TEST(Subset, OfIndicesHasTheseSamplesInTheirOrder) {
  const SubsetDataset subset(counted(9), std::vector<int64_t>{8, 1, 1, 4});
  EXPECT_THAT(numbers_of(subset), ElementsAre(8, 1, 1, 4));
  EXPECT_THAT(numbers_of(*subset.over(counted(20))), ElementsAre(8, 1, 1, 4));
  EXPECT_NE(subset.fingerprint(),
            SubsetDataset(counted(9), std::vector<int64_t>{8, 1, 4, 1}).fingerprint());
  EXPECT_THAT(test::error_of([] { SubsetDataset(counted(9), std::vector<int64_t>{9}); }),
              HasSubstr("among 0 to 8 (got 9)"));
}

}  // namespace
}  // namespace muster::data
