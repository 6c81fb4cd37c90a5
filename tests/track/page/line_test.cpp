#include "muster/track/page/line.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::track {
namespace {

using testing::ElementsAre;

std::vector<Point> noise(size_t count) {
  std::mt19937 random(9);
  std::normal_distribution<double> normal;
  std::vector<Point> out;
  for (size_t i = 0; i < count; ++i) out.push_back({static_cast<double>(i), normal(random)});
  return out;
}

TEST(Thin, KeepsEveryExtremeOfEveryColumn) {
  const std::vector<Point> all = noise(50000);
  const int columns = 100;
  const std::vector<Point> kept = thin(all, 0, 50000, columns);
  EXPECT_LE(kept.size(), 4u * columns);
  EXPECT_TRUE(std::is_sorted(
      kept.begin(), kept.end(), [](const Point& a, const Point& b) { return a.x < b.x; }));
  EXPECT_EQ(kept.front(), all.front());
  EXPECT_EQ(kept.back(), all.back());
  const auto by_y = [](const Point& a, const Point& b) { return a.y < b.y; };
  for (int column = 0; column < columns; ++column) {
    const auto from = all.begin() + 500 * column;
    const auto low = std::min_element(from, from + 500, by_y);
    const auto high = std::max_element(from, from + 500, by_y);
    ASSERT_NE(std::find(kept.begin(), kept.end(), *low), kept.end());
    ASSERT_NE(std::find(kept.begin(), kept.end(), *high), kept.end());
  }
}

TEST(Thin, LeavesShortCurvesAlone) {
  const std::vector<Point> all = noise(200);
  EXPECT_EQ(thin(all, 0, 200, 100), all);
  EXPECT_TRUE(thin({}, 0, 1, 10).empty());
  EXPECT_LE(thin(noise(1000), 5, 5, 10).size(), 4u);  // no width: one column
}

TEST(BinMeans, AreTheMeansOfEachBinThatHasPoints) {
  const std::vector<Point> points{{0, 1}, {1, 3}, {9, 10}};
  EXPECT_THAT(bin_means(points, 0, 10, 5), ElementsAre(Point{0.5, 2}, Point{9, 10}));
}

TEST(Stretches, AreCutWhereAValueIsNotFinite) {
  const std::vector<Point> points{{0, NAN}, {1, 1}, {2, 2}, {3, INFINITY}, {4, -INFINITY}, {5, 5}};
  const auto found = stretches(points);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_THAT(found[0], ElementsAre(Point{1, 1}, Point{2, 2}));
  EXPECT_THAT(found[1], ElementsAre(Point{5, 5}));
  EXPECT_TRUE(stretches({}).empty());
  EXPECT_TRUE(stretches(std::vector<Point>{{0, NAN}}).empty());
}

TEST(PathData, IsShortAndRounded) {
  EXPECT_EQ(path_data(std::vector<Point>{{1, 2}, {3.14159, -0.01}, {0.25, 1e3}}),
            "M1 2L3.1 0L0.2 1000");
  EXPECT_EQ(path_data({}), "");
}

}  // namespace
}  // namespace muster::track
