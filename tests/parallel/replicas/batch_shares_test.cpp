// Shares of a batch: whole numbers, and fractions that follow measured speed.
#include "muster/parallel/replicas/batch_shares.h"

#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace muster {
namespace {

using parallel::deal_rows;
using parallel::SpeedShares;
using test::refusal_of;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(DealRows, SharesThatDivideEvenlyAreEqual) {
  EXPECT_THAT(deal_rows(12, {1, 1, 1}, true), ElementsAre(4, 4, 4));
}

TEST(DealRows, WhatIsLeftGoesToTheLargestRemainderThenToTheLowerIndex) {
  EXPECT_THAT(deal_rows(5, {1, 1, 1}, true), ElementsAre(2, 2, 1));
  EXPECT_THAT(deal_rows(10, {0.16, 0.55, 0.29}, false), ElementsAre(2, 5, 3));
}

TEST(DealRows, AWeightOfZeroGetsNothing) {
  EXPECT_THAT(deal_rows(7, {1, 0, 1}, true), ElementsAre(4, 0, 3));
  EXPECT_THAT(deal_rows(1, {0, 1, 0}, true), ElementsAre(0, 1, 0));
}

TEST(DealRows, EachGetsSomeIfAskedAndIfThereIsEnough) {
  EXPECT_THAT(deal_rows(8, {0.98, 0.01, 0.01}, true), ElementsAre(6, 1, 1));
  EXPECT_THAT(deal_rows(8, {0.98, 0.01, 0.01}, false), ElementsAre(8, 0, 0));
  EXPECT_THAT(deal_rows(2, {1, 1, 1, 1}, true), ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(deal_rows(0, {1, 1}, true), ElementsAre(0, 0));
}

TEST(DealRows, AddUpAndStayWithinOneOfTheExactShares) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::vector<double> weights(1 + random() % 6);
    for (double& weight : weights) weight = std::uniform_real_distribution(0.01, 10.0)(random);
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    const auto rows = static_cast<int64_t>(random() % 500);
    const auto shares = deal_rows(rows, weights, false);
    EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), int64_t{0}), rows);
    for (size_t k = 0; k < shares.size(); ++k)
      EXPECT_LT(std::abs(shares[k] - rows * weights[k] / sum), 1);
    const auto some = deal_rows(rows, weights, true);
    EXPECT_EQ(std::accumulate(some.begin(), some.end(), int64_t{0}), rows);
    if (rows >= static_cast<int64_t>(weights.size())) {
      EXPECT_GE(*std::ranges::min_element(some), 1);
    }
  }
}

/// Replicas whose time is cost x rows, for some steps of 100 rows.
std::vector<double> after_steps(SpeedShares& shares, const std::vector<double>& costs, int steps) {
  for (int step = 0; step < steps; ++step) {
    const auto rows = deal_rows(100, shares.fractions(), true);
    std::vector<double> seconds;
    for (size_t i = 0; i < rows.size(); ++i) seconds.push_back(costs[i] * rows[i]);
    shares.note(rows, seconds);
  }
  return shares.fractions();
}

TEST(SpeedShares, EndWhereAllReplicasTakeTheSameTime) {
  SpeedShares shares(3, {});
  // Speeds 1 : 1/3 : 1/2 -> 6/11, 2/11, 3/11.
  EXPECT_THAT(
      after_steps(shares, {1, 3, 2}, 60),
      ElementsAre(
          DoubleNear(6 / 11.0, 0.02), DoubleNear(2 / 11.0, 0.02), DoubleNear(3 / 11.0, 0.02)));
}

TEST(SpeedShares, ChangeByNoMoreThanAskedInAStep) {
  SpeedShares shares(2, {.max_change = 0.1});
  for (int step = 0; step < 30; ++step) {
    const auto before = shares.fractions();
    const auto after = after_steps(shares, {1, 9}, 1);
    for (size_t i = 0; i < 2; ++i) EXPECT_LE(std::abs(after[i] / before[i] - 1), 0.1 + 1e-9);
    EXPECT_NEAR(after[0] + after[1], 1, 1e-12);
  }
  EXPECT_THAT(shares.fractions(), ElementsAre(DoubleNear(0.9, 0.02), DoubleNear(0.1, 0.02)));
}

TEST(SpeedShares, AHiccupMovesNothing) {
  SpeedShares shares(2, {});
  after_steps(shares, {1, 1}, 10);
  shares.note({50, 50}, {50, 5000});
  EXPECT_THAT(shares.fractions(), ElementsAre(0.5, 0.5));
}

TEST(SpeedShares, NoiseWithinTheDeadBandMovesNothing) {
  SpeedShares shares(2, {});
  EXPECT_THAT(after_steps(shares, {1, 1.015}, 20), ElementsAre(0.5, 0.5));
}

TEST(SpeedShares, WaitUntilEveryReplicaWasSeen) {
  SpeedShares shares(2, {});
  shares.note({1, 0}, {1, 0});
  shares.note({1, 0}, {1, 0.5});
  EXPECT_THAT(shares.fractions(), ElementsAre(0.5, 0.5));
}

TEST(SpeedShares, OptionsThatMakeNoSenseAreRefused) {
  EXPECT_THAT(refusal_of([] { SpeedShares(2, {.window = 0}); }), HasSubstr("speed_window"));
  EXPECT_THAT(refusal_of([] { SpeedShares(2, {.max_change = 0}); }), HasSubstr("max_share_change"));
  EXPECT_THAT(refusal_of([] { SpeedShares(2, {.max_change = 1.5}); }),
              HasSubstr("max_share_change"));
}

}  // namespace
}  // namespace muster
