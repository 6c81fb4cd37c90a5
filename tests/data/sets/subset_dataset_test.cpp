#include "muster/data/sets/subset_dataset.h"

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"

#include "tests/data/loader/loader_fixtures.h"

namespace muster::data {
namespace {

using ::testing::ElementsAre;

TEST(SubsetDataset, NumbersARangeOfSamplesFromZero) {
  const SubsetDataset subset(std::make_shared<Numbers>(10), 6, 3);
  EXPECT_EQ(subset.size(), 3);
  EXPECT_EQ(subset.spec().name, "numbers");
  const std::array<int64_t, 2> indices{2, 0};
  const Batch batch = subset.get(indices);
  EXPECT_TRUE(batch["data"].equal(torch::tensor({8, 6}, torch::kLong)));
  EXPECT_THAT(batch.indices, ElementsAre(2, 0));
}

TEST(SubsetDataset, RefusesIndicesOutsideItselfThoughTheWholeHasThem) {
  const SubsetDataset subset(std::make_shared<Numbers>(10), 2, 3);
  const int64_t three = 3;
  EXPECT_THROW(subset.get({&three, 1}), Error);
}

TEST(SubsetDataset, IsARangeInsideTheWhole) {
  const auto whole = std::make_shared<Numbers>(10);
  EXPECT_EQ(SubsetDataset(whole, 10, 0).size(), 0);
  EXPECT_THROW(SubsetDataset(whole, 8, 3), Error);
  EXPECT_THROW(SubsetDataset(whole, -1, 3), Error);
  EXPECT_THROW(SubsetDataset(whole, 0, -1), Error);
}

}  // namespace
}  // namespace muster::data
