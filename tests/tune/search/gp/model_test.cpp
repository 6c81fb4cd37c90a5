#include "muster/tune/search/gp/model.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/numbers.h"

namespace muster::tune {
namespace {

using test::kInf;
using test::kNan;
using ::testing::ElementsAre;

const Space& tree() {
  static const Space space(std::vector<Parameter>{
      {.name = "optimizer", .domain = choice({"adam", "sgd"})},
      {.name = "momentum", .domain = uniform(0, 1), .when = "optimizer == 'sgd'"},
      {.name = "nesterov", .domain = choice({"no", "yes"}), .when = "optimizer == 'sgd'"},
      {.name = "fixed", .domain = randint(3, 4)}});
  return space;
}

TEST(GpAxes, AParameterThatDoesNotApplyIsInTheMiddleAndItsConditionHasAnAxis) {
  const GpAxes axes(tree());
  EXPECT_EQ(axes.axes().size(), 3U) << "one value is no axis";
  EXPECT_EQ(axes.columns(), 4U) << "one condition, of two parameters";
  EXPECT_THAT(axes.hamming(), ElementsAre(1, 0, 1, 1));
  EXPECT_THAT(axes.columns_of({1, 0.25, 1, 3}), ElementsAre(1, 0.25, 1, 1));
  EXPECT_THAT(axes.columns_of({0, kNan, kNan, 3}), ElementsAre(0, 0.5, -1, 0));
  const Point open(4, kNan);
  EXPECT_THAT(axes.columns_of_candidate(std::vector<double>{0, 0.25, 1}, open),
              ElementsAre(0, 0.5, -1, 0));
  EXPECT_THAT(axes.columns_of_candidate(std::vector<double>{1, 0.25, 1}, open),
              ElementsAre(1, 0.25, 1, 1));
  EXPECT_THAT(axes.point_of(std::vector<double>{1, 0.25, 1}, open), ElementsAre(1, 0.25, 1, 3));
}

TEST(GpRows, StoppedAndPausedTrialsAreRowsAtTheirDepth) {
  const Space space = {{"x", uniform(0, 1)}};
  const GpAxes axes(space);
  GpRows rows(axes, true);
  for (int64_t number = 0; number < 3; ++number) rows.suggested(number, {0.5});
  EXPECT_EQ(rows.running().size(), 3U);
  rows.reported(0, 1, 0.1);
  rows.paused(0);
  EXPECT_EQ(rows.running().size(), 2U) << "paused is not under way";
  rows.reported(1, 9, 0.7);
  rows.told({.number = 1, .point = {0.5}, .score = 0.7, .step = 9});
  ASSERT_EQ(rows.rows().size(), 2U);
  EXPECT_TRUE(rows.has_stopped());
  EXPECT_DOUBLE_EQ(depth_of(rows.rows()[0], rows.deepest()), std::log(2) / std::log(10));
  EXPECT_EQ(depth_of(rows.rows()[1], rows.deepest()), 1);
  // Given up where it paused: known. Gone on: another row.
  rows.told({.number = 0, .point = {0.5}, .state = TrialState::kPruned, .score = 0.1, .step = 1});
  EXPECT_EQ(rows.rows().size(), 2U);
  rows.reported(2, 1, 0.1);
  rows.paused(2);
  rows.reported(2, 3, 0.2);
  EXPECT_EQ(rows.running().size(), 1U) << "gone on";
  rows.told({.number = 2, .point = {0.5}, .state = TrialState::kPruned, .score = 0.2, .step = 3});
  EXPECT_EQ(rows.rows().size(), 4U);
  EXPECT_TRUE(rows.running().empty());
}

TEST(GpRows, FailedTrialsAreWorstOrIgnoredAndThoseOutOfMemoryInfeasible) {
  const Space space = {{"x", uniform(0, 1)}};
  const GpAxes axes(space);
  GpRows worst(axes, true), ignored(axes, false);
  for (GpRows* rows : {&worst, &ignored}) {
    rows->told({.number = 0,
                .point = {0.1},
                .state = TrialState::kFailed,
                .score = kNan,
                .failure = Failure::kCrash});
    rows->told({.number = 1,
                .point = {0.2},
                .state = TrialState::kFailed,
                .score = kNan,
                .failure = Failure::kOutOfMemory});
    rows->told({.number = 2, .point = {0.3}, .score = kNan});
  }
  ASSERT_EQ(worst.rows().size(), 3U);
  EXPECT_EQ(worst.rows()[0].kind, GpRow::kWorst);
  EXPECT_EQ(worst.rows()[1].kind, GpRow::kInfeasible);
  EXPECT_EQ(worst.rows()[2].kind, GpRow::kWorst);
  EXPECT_FALSE(worst.has_stopped());
  ASSERT_EQ(ignored.rows().size(), 1U);
  EXPECT_EQ(ignored.rows()[0].kind, GpRow::kInfeasible);
}

TEST(GpRows, TargetsHaveMeanNullAndDeviationOne) {
  EXPECT_THAT(standardized({1, 2, 3, kNan, kInf, -kInf}),
              ElementsAre(testing::DoubleNear(-1 / std::sqrt(1.0), 0.2),
                          testing::DoubleNear(0, 0.3),
                          testing::Gt(0.9),
                          testing::Lt(-0.9),
                          testing::Gt(0.9),
                          testing::Lt(-0.9)));
  EXPECT_THAT(standardized({7, 7, 7}), ElementsAre(0, 0, 0));
  EXPECT_THAT(standardized({kNan, kNan}), ElementsAre(0, 0));
  const auto huge = standardized({1e308, -1e308});
  EXPECT_THAT(huge, ElementsAre(1, -1));
  const auto tiny = standardized({1e-300, 3e-300});
  EXPECT_NEAR(tiny[0], -1, 1e-9);
  EXPECT_NEAR(tiny[1], 1, 1e-9);
}

TEST(GpRows, ScoresBelowTheMedianCountByTheirRankAlone) {
  // The median is 0, and the scores from it on are 0, 1, 2, as wide as sqrt(5 / 3); those below it
  // are at the normal quantiles 0.1 and 0.3, which are tabulated.
  const double width = std::sqrt(5.0 / 3);
  EXPECT_THAT(half_ranked({1, -100, 0, -3, 2}),
              ElementsAre(1,
                          testing::DoubleNear(-1.2815515655446004 * width, 1e-12),
                          0,
                          testing::DoubleNear(-0.5244005127080407 * width, 1e-12),
                          2));
  EXPECT_EQ(half_ranked({1, -1e9, 0, -3, 2}), half_ranked({1, -100, 0, -3, 2}));
  const auto ties = half_ranked({-5, -5, 1, 2, 3});
  EXPECT_EQ(ties[0], ties[1]);
  EXPECT_THAT(half_ranked({0, 0, 0}), ElementsAre(0, 0, 0));
  EXPECT_THAT(half_ranked({4}), ElementsAre(4));
}

TEST(GpFit, AMemoBringsBackTheFitThatItWasMadeOf) {
  GpFit fit{.rows = 40,
            .deepest = 81,
            .objective = {.weights = {std::exp(0.1234), std::exp(-3.25)},
                          .scale = std::exp(1.5),
                          .noise = std::exp(-13.8155)},
            .feasibility = {}};
  EXPECT_EQ(fit.memo(), "40 81; 0.1234 -3.2500 1.5000 -13.8155");
  fit.feasibility = fit.objective;
  const auto back = GpFit::from_memo(fit.memo());
  ASSERT_TRUE(back);
  EXPECT_EQ(back->memo(), fit.memo());
  EXPECT_EQ(back->rows, 40U);
  EXPECT_EQ(back->objective.weights.size(), 2U);
  EXPECT_TRUE(back->feasibility);
  for (const char* wrong :
       {"", "40", "40 81", "40 81;", "x 81; 1 2", "40 0; 1 2", "40 81; 1 a", "40 81; 1"})
    EXPECT_FALSE(GpFit::from_memo(wrong)) << wrong;
}

}  // namespace
}  // namespace muster::tune
