#include "muster/tune/search/gp/sobol.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "muster/tune/search/gp/sobol_points.h"

#include "tests/support/golden.h"
#include "tests/support/numbers.h"

namespace muster::tune {
namespace {

TEST(Sobol, UnscrambledItIsScipysSequence) {
  const Json golden = test::read_golden("sobol");
  const auto points = golden["points"].get<std::vector<std::vector<double>>>();
  const SobolSequence sequence(SobolSequence::kMaxDimensions);
  for (size_t i = 0; i < points.size(); ++i) {
    for (size_t d = 0; d < points[i].size(); ++d) EXPECT_EQ(sequence.at(i, d), points[i][d]);
  }
}

TEST(Sobol, AllDimensionsHaveScipysNumbers) {
  const Json golden = test::read_golden("sobol");
  const auto sums = golden["weighted_sums"].get<std::vector<double>>();
  ASSERT_EQ(sums.size(), SobolSequence::kMaxDimensions);
  const SobolSequence sequence(sums.size());
  for (size_t d = 0; d < sums.size(); ++d) {
    double sum = 0;
    for (size_t i = 0; i < 256; ++i) sum += static_cast<double>(i + 1) * sequence.at(i, d);
    EXPECT_EQ(sum, sums[d]) << d;
  }
}

TEST(Sobol, AllPointsAtOnceAreThoseOneByOne) {
  for (const std::optional<uint64_t> seed : {std::optional<uint64_t>{}, {7}}) {
    const SobolSequence sequence(5, seed, 3);
    const auto columns = sequence.columns(100);
    for (size_t d = 0; d < 5; ++d)
      for (size_t i = 0; i < 100; ++i) EXPECT_EQ(columns[d * 100 + i], sequence.at(i, d));
  }
}

TEST(Sobol, ScrambledEachIntervalStillHasItsPoint) {
  for (const uint64_t seed : {1, 2, 99}) {
    const SobolSequence sequence(40, seed);
    for (size_t d = 0; d < 40; ++d) {
      std::vector<int> hits(128);
      for (size_t i = 0; i < 128; ++i) ++hits[static_cast<size_t>(sequence.at(i, d) * 128)];
      EXPECT_EQ(std::ranges::count(hits, 1), 128) << "dimension " << d;
    }
  }
}

TEST(Sobol, ScrambledPairsOfDimensionsStayANet) {
  // The first two dimensions are a (0, 2)-sequence: 2^4 boxes of any shape have a point each.
  const SobolSequence sequence(2, 5);
  for (const size_t across : {1, 2, 4, 8, 16}) {
    std::vector<int> hits(16);
    for (size_t i = 0; i < 16; ++i) {
      const auto column = static_cast<size_t>(sequence.at(i, 0) * static_cast<double>(across));
      const auto row = static_cast<size_t>(sequence.at(i, 1) * 16 / static_cast<double>(across));
      ++hits[row * across + column];
    }
    EXPECT_EQ(std::ranges::count(hits, 1), 16) << across;
  }
}

TEST(Sobol, SeedsAndStreamsScrambleDifferently) {
  const SobolSequence one(3, 1), same(3, 1), other(3, 2), stream(3, 1, 1);
  EXPECT_EQ(one.columns(8), same.columns(8));
  EXPECT_NE(one.columns(8), other.columns(8));
  EXPECT_NE(one.columns(8), stream.columns(8));
}

TEST(Sobol, PointsOfASpaceHaveEqualPartsOfEachDistribution) {
  const Space space = {
      {"kind", choice({"a", "b", "c", "d"})}, {"n", randint(0, 8)}, {"x", randn(5, 2)}};
  const SobolPoints points(space, 3);
  std::vector<int> kinds(4), numbers(8);
  double sum = 0, squares = 0;
  for (uint64_t i = 0; i < 1024; ++i) {
    const Point point = points.fill(i, Point(3, test::kNan));
    ++kinds[static_cast<size_t>(point[0])];
    ++numbers[static_cast<size_t>(point[1])];
    sum += (point[2] - 5) / 2;
    squares += (point[2] - 5) * (point[2] - 5) / 4;
  }
  EXPECT_EQ(kinds, std::vector<int>(4, 256));
  EXPECT_EQ(numbers, std::vector<int>(8, 128));
  EXPECT_NEAR(sum / 1024, 0, 0.01);
  EXPECT_NEAR(squares / 1024, 1, 0.02);
}

}  // namespace
}  // namespace muster::tune
