#include "muster/memory/leak/growth.h"

#include <vector>

#include <gtest/gtest.h>

namespace muster::memory {
namespace {

TEST(Growth, TheMedianSlopeOfALineIsItsSlope) {
  const std::vector<int64_t> line{10, 13, 16, 19, 22};
  EXPECT_DOUBLE_EQ(median_slope(line), 3);
  EXPECT_DOUBLE_EQ(median_slope(std::vector<int64_t>{7}), 0);
  EXPECT_DOUBLE_EQ(median_slope(std::vector<int64_t>{}), 0);
}

TEST(Growth, TheMedianSlopeOfFourValuesIsTheMiddleOfTheirSixSlopes) {
  // Slopes of 0, 1, 10, 3: 1, 5, 1, 9, 1, -7; in order -7, 1, 1, 1, 5, 9.
  EXPECT_DOUBLE_EQ(median_slope(std::vector<int64_t>{0, 1, 10, 3}), 1);
}

TEST(Growth, OneWildValueDoesNotChangeTheMedianSlope) {
  std::vector<int64_t> line;
  for (int64_t i = 0; i < 21; ++i) line.push_back(5 * i);
  line[10] = 1'000'000;
  EXPECT_DOUBLE_EQ(median_slope(line), 5);
}

TEST(Growth, RisingCountsStepsNotHeights) {
  const std::vector<int64_t> steps{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5};  // 9 of 10 go up
  EXPECT_TRUE(mostly_rises(steps, 0.9));
  EXPECT_FALSE(mostly_rises(steps, 0.91));
  EXPECT_FALSE(mostly_rises(std::vector<int64_t>{3, 3, 3}, 0.1));
  EXPECT_FALSE(mostly_rises(std::vector<int64_t>{3}, 0.1));
}

TEST(Growth, ASawtoothFallsBackAndALineDoesNot) {
  std::vector<int64_t> line, sawtooth;
  for (int64_t i = 0; i < 20; ++i) {
    line.push_back(3 * i);
    sawtooth.push_back((i + 12) % 16);  // emptied once within the 20
  }
  EXPECT_TRUE(keeps_its_growth(line));
  EXPECT_TRUE(mostly_rises(sawtooth, 0.9));
  EXPECT_GT(median_slope(sawtooth), 0);
  EXPECT_FALSE(keeps_its_growth(sawtooth));
}

TEST(Growth, FifthsRiseThroughNoiseAndNotByAStep) {
  std::vector<int64_t> noisy, step, flattens;
  for (int64_t i = 0; i < 20; ++i) {
    noisy.push_back(10 * i + (i % 3 == 0 ? 60 : 0));  // a fall in six of the 19 steps
    step.push_back(i < 9 ? 0 : 100);
    flattens.push_back(i < 12 ? 10 * i : 120);
  }
  EXPECT_FALSE(mostly_rises(noisy, 0.9));
  EXPECT_TRUE(rises_in_fifths(noisy));
  EXPECT_FALSE(rises_in_fifths(step));
  EXPECT_FALSE(rises_in_fifths(flattens));
  EXPECT_FALSE(rises_in_fifths(std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(Growth, SurvivorsMustBeOfMostIterations) {
  EXPECT_TRUE(survivors_throughout(0b11111000, 3, 5, 1));
  EXPECT_FALSE(survivors_throughout(0b11101000, 3, 5, 0.81));
  EXPECT_TRUE(survivors_throughout(0b11101000, 3, 5, 0.8));
  EXPECT_FALSE(survivors_throughout(0b00000111, 3, 5, 0.2));  // all of them young
  EXPECT_FALSE(survivors_throughout(~uint64_t{0}, 3, 0, 0.5));
}

}  // namespace
}  // namespace muster::memory
