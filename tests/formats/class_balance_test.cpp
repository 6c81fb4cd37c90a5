#include "muster/formats/class_balance.h"

#include <vector>

#include <gtest/gtest.h>

namespace muster::formats {
namespace {

TEST(ClassImbalance, IsTheLargestClassOverTheSmallest) {
  const auto of = [](const std::vector<int64_t>& samples) { return class_imbalance(samples); };
  EXPECT_EQ(of({10, 40, 20}), 4);
  EXPECT_EQ(of({7}), 1);
  EXPECT_EQ(of({3, 2}), 1.5);
  EXPECT_EQ(of({3, 0}), 0) << "no number says it";
  EXPECT_EQ(of({}), 0);
}

}  // namespace
}  // namespace muster::formats
