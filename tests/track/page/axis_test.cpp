#include "muster/track/page/axis.h"

#include <cmath>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::track {
namespace {

using testing::ElementsAre;

TEST(ShareAxis, StaysWithinZeroAndOne) {
  for (double lo = 0; lo <= 1; lo += 0.01) {
    for (double hi = lo; hi <= 1; hi += 0.01) {
      const Axis axis = share_axis(lo, hi, 5);
      ASSERT_GE(axis.lo, 0) << lo << ' ' << hi;
      ASSERT_LE(axis.hi, 1) << lo << ' ' << hi;
      ASSERT_LT(axis.lo, axis.hi) << lo << ' ' << hi;
      ASSERT_GE(axis.ticks.size(), 2u) << lo << ' ' << hi;
      ASSERT_GE(axis.place(lo), -1e-9) << lo << ' ' << hi;
      ASSERT_LE(axis.place(hi), 1 + 1e-9) << lo << ' ' << hi;
    }
  }
}

TEST(NiceTicks, AreMultiplesOfOneTwoOrFive) {
  EXPECT_THAT(nice_ticks(0, 1, 6), ElementsAre(0, 0.2, 0.4, 0.6, 0.8, 1));
  EXPECT_THAT(nice_ticks(0, 1, 5), ElementsAre(0, 0.5, 1));
  EXPECT_THAT(nice_ticks(0, 468, 6), ElementsAre(0, 100, 200, 300, 400));
  EXPECT_THAT(nice_ticks(-3, 3, 4), ElementsAre(-2, 0, 2));
  EXPECT_THAT(nice_ticks(0.1, 0.35, 6), ElementsAre(0.1, 0.15, 0.2, 0.25, 0.3, 0.35));
}

TEST(NiceTicks, OfAnyRangeAreFewRisingAndInsideIt) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> mantissa(-10, 10);
  for (int i = 0; i < 20000; ++i) {
    const double scale = std::pow(10.0, static_cast<int>(random() % 500) - 250);
    double lo = mantissa(random) * scale;
    double hi = i % 2 ? mantissa(random) * scale : lo + std::abs(lo) * 1e-8;
    if (lo > hi) std::swap(lo, hi);
    if (lo == hi) continue;
    const int most = 2 + static_cast<int>(random() % 9);
    const auto ticks = nice_ticks(lo, hi, most);
    ASSERT_LE(ticks.size(), static_cast<size_t>(most)) << lo << ' ' << hi;
    for (size_t t = 0; t < ticks.size(); ++t) {
      ASSERT_GE(ticks[t], lo);
      ASSERT_LE(ticks[t], hi);
      ASSERT_TRUE(t == 0 || ticks[t] > ticks[t - 1]);
    }
  }
}

TEST(TickLabels, AreWrittenInOneStyle) {
  using Ticks = std::vector<double>;
  EXPECT_THAT(tick_labels(Ticks{0, 0.05, 0.1}), ElementsAre("0", "0.05", "0.10"));
  EXPECT_THAT(tick_labels(Ticks{0, 5000, 10000}), ElementsAre("0", "5k", "10k"));
  EXPECT_THAT(tick_labels(Ticks{2000, 4000}), ElementsAre("2000", "4000"));
  EXPECT_THAT(tick_labels(Ticks{0, 2.5e6}), ElementsAre("0", "2.5M"));
  EXPECT_THAT(tick_labels(Ticks{0, 5e-5, 1e-4}), ElementsAre("0", "0.5e-4", "1.0e-4"));
  EXPECT_THAT(tick_labels(Ticks{-0.5, 0, 0.5}), ElementsAre("-0.5", "0", "0.5"));
  EXPECT_THAT(tick_labels(Ticks{0, 1e15}), ElementsAre("0", "1e15"));
}

TEST(Readable, HasFourDigits) {
  EXPECT_EQ(readable(0.41234567), "0.4123");
  EXPECT_EQ(readable(52341), "52.34k");
  EXPECT_EQ(readable(0.00005), "5e-05");
  EXPECT_EQ(readable(0), "0");
  EXPECT_EQ(readable(NAN), "NaN");
  EXPECT_EQ(readable(-INFINITY), "\u2212\u221e");
}

TEST(LinearAxis, EndsAtTicksAndAtZeroWhereItIsNear) {
  const Axis accuracy = linear_axis(0.61, 0.93, 5);
  EXPECT_EQ(accuracy.lo, 0.6);
  EXPECT_EQ(accuracy.hi, 1.0);
  EXPECT_EQ(accuracy.ticks.front(), accuracy.lo);
  EXPECT_EQ(accuracy.ticks.back(), accuracy.hi);
  EXPECT_EQ(linear_axis(0.2, 2.3, 5).lo, 0);
  EXPECT_EQ(accuracy.place(0.6), 0);
  EXPECT_NEAR(accuracy.place(0.8), 0.5, 1e-12);
}

TEST(LinearAxis, GivesRoomToOneValueAndSurvivesTheExtremes) {
  const double most = std::numeric_limits<double>::max();
  const double least = std::numeric_limits<double>::denorm_min();
  for (const auto& [lo, hi] : std::vector<std::pair<double, double>>{{0, 0},
                                                                     {0.05, 0.05},
                                                                     {-3, -3},
                                                                     {1, std::nextafter(1, 2)},
                                                                     {-most, most},
                                                                     {0, least},
                                                                     {least, least},
                                                                     {1e300, most}}) {
    const Axis axis = linear_axis(lo, hi, 5);
    ASSERT_LT(axis.lo, axis.hi) << lo << ' ' << hi;
    ASSERT_GE(axis.ticks.size(), 2u) << lo << ' ' << hi;
    ASSERT_EQ(axis.ticks.size(), axis.labels.size());
    ASSERT_TRUE(std::isfinite(axis.place(lo)) && std::isfinite(axis.place(hi)));
  }
}

TEST(LinearAxis, TellsNumbersApartUpToTheEndOfDoubles) {
  const Axis axis = linear_axis(-1e308, 1.5e308, 5);
  EXPECT_NEAR(
      axis.place(1.5e308) - axis.place(1e308), (axis.place(1e308) - axis.place(-1e308)) / 4, 1e-12);
  for (const std::string& label : axis.labels) EXPECT_LT(label.size(), 10U) << label;
  EXPECT_EQ(axis.place(std::numeric_limits<double>::infinity()),
            axis.place(std::numeric_limits<double>::max()));
}

TEST(ExactAxis, ShowsTheRangeAndNoMore) {
  const Axis axis = exact_axis(0, 468, 6);
  EXPECT_EQ(axis.lo, 0);
  EXPECT_EQ(axis.hi, 468);
  EXPECT_EQ(exact_axis(7, 7, 5).ticks.size(), 5u);
  const Axis huge = exact_axis(0x1p63, 0x1p63, 5);
  EXPECT_TRUE(huge.lo < huge.hi && huge.ticks.size() >= 2);
}

TEST(LogAxis, HasTicksAtPowersOfTen) {
  const Axis axis = log_axis(0.013, 8, 5);
  EXPECT_EQ(axis.lo, 0.01);
  EXPECT_EQ(axis.hi, 10);
  EXPECT_THAT(axis.ticks, ElementsAre(0.01, 0.1, 1, 10));
  EXPECT_THAT(axis.labels, ElementsAre("0.01", "0.1", "1", "10"));
  EXPECT_NEAR(axis.place(1), 2.0 / 3, 1e-12);
  EXPECT_LE(log_axis(1e-300, 1e300, 5).ticks.size(), 6u);
  const Axis all =
      log_axis(std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::max(), 5);
  EXPECT_EQ(all.place(std::numeric_limits<double>::max()), 1);
  EXPECT_EQ(all.place(std::numeric_limits<double>::denorm_min()), 0);
}

}  // namespace
}  // namespace muster::track
