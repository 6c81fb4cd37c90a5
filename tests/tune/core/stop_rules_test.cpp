#include "muster/tune/core/stop_rules.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tests/support/numbers.h"

namespace muster::tune {
namespace {

using test::refusal_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Comparison = StopCriterion::Comparison;

using test::kNan;

StopCriterion parsed(std::string_view text) { return parse_stop_criterion(text, "stop"); }

StudySpec study(std::vector<std::string> criteria, Plateau plateau = {}, Mode mode = Mode::kMin) {
  StudySpec spec{.metric = "loss", .mode = mode, .plateau = plateau};
  for (const std::string& text : criteria) spec.stop.push_back(parsed(text));
  return spec;
}

TEST(StopCriterion, ReadsEveryComparisonWithAndWithoutBlanks) {
  EXPECT_EQ(parsed("loss <= 0.1"), (StopCriterion{"loss", Comparison::kLessEqual, 0.1}));
  EXPECT_EQ(parsed("loss<0.1"), (StopCriterion{"loss", Comparison::kLess, 0.1}));
  EXPECT_EQ(parsed("  val/acc  >=  95e-2 "),
            (StopCriterion{"val/acc", Comparison::kGreaterEqual, 0.95}));
  EXPECT_EQ(parsed("step>10"), (StopCriterion{"step", Comparison::kGreater, 10}));
  EXPECT_EQ(criterion_text(parsed("loss<=-0.10")), "loss <= -0.1");
}

TEST(StopCriterion, WhatDoesNotSayItsDirectionIsRefusedWithBothWaysToMeanIt) {
  // Ray's stop={"loss": 0.1} stops above 0.1.
  for (const char* text : {"loss: 0.1", "loss = 0.1", "loss == 0.1", "loss=0.1"}) {
    const std::string refusal = refusal_of([&] { parsed(text); });
    EXPECT_THAT(refusal, HasSubstr("stop: stop criterion: it compares a metric by <, <=, > or >="));
    EXPECT_THAT(refusal, HasSubstr("\"loss <= 0.1\" or \"loss >= 0.1\"")) << text;
  }
  EXPECT_THAT(refusal_of([] { parsed("loss"); }), HasSubstr("for example \"loss <= 0.1\""));
}

TEST(StopCriterion, OtherTextsAreRefusedWithTheRule) {
  EXPECT_THAT(refusal_of([] { parsed("0.1 >= loss"); }), HasSubstr("the metric comes first"));
  EXPECT_THAT(refusal_of([] { parsed(">= 1"); }), HasSubstr("the metric comes first"));
  for (const char* text : {"loss <= ",
                           "loss <= x",
                           "loss =< 1",
                           "a < b < 1",
                           "loss <= nan",
                           "l<=inf",
                           "loss <= 1 or acc > 2",
                           "loss <> 1",
                           "loss <= 1e999"})
    EXPECT_THAT(refusal_of([&] { parsed(text); }), HasSubstr("stop: stop criterion")) << text;
}

TEST(StopRules, ACriterionCompletesTheTrialAndSaysWhichNumberDidIt) {
  StopRules rules(study({"accuracy >= 0.95", "loss < 0.1"}));
  EXPECT_EQ(rules.on_report(0, 1, {{"loss", 0.1}, {"accuracy", 0.949}}, 0), std::nullopt);
  EXPECT_EQ(rules.on_report(0, 2, {{"loss", 0.05}, {"accuracy", 0.953}}, 0),
            (Decision{Action::kStop, "accuracy 0.953 >= 0.95", true}));
  EXPECT_EQ(rules.on_report(0, 3, {{"loss", 0.05}}, 0)->reason, "loss 0.05 < 0.1")
      << "a criterion on a metric that the report lacks does not hold";
  EXPECT_EQ(rules.on_report(0, 4, {{"loss", kNan}}, 0), std::nullopt);
}

TEST(StopRules, StepAndTimeAreKnownWithoutBeingReported) {
  StopRules rules(study({"step >= 5", "time_total_s > 60"}));
  EXPECT_EQ(rules.on_report(0, 4, {}, 60), std::nullopt);
  EXPECT_EQ(rules.on_report(0, 5, {}, 0)->reason, "step 5 >= 5");
  EXPECT_EQ(rules.on_report(0, 4, {}, 60.5)->reason, "time_total_s 60.5 > 60");
}

TEST(StopRules, NameTheMetricsThatAFirstReportShouldHave) {
  EXPECT_THAT(StopRules(study({"a > 1", "step > 2", "time_total_s > 3", "b < 4"})).metrics(),
              ElementsAre("a", "b"));
}

TEST(Plateau, EndsATrialThatWasNotBetterInSoManyReports) {
  StopRules rules(study({}, {.patience = 2}));
  const auto at = [&](int64_t t, double loss) {
    return rules.on_report(7, t, {{"loss", loss}}, 0);
  };
  EXPECT_EQ(at(1, 0.5), std::nullopt);
  EXPECT_EQ(at(2, 0.41), std::nullopt);
  EXPECT_EQ(at(3, 0.41), std::nullopt) << "equal is not better";
  EXPECT_EQ(at(4, 0.42), (Decision{Action::kStop, "no better than 0.41 in 2 reports", true}));
}

TEST(Plateau, BetterMeansByMoreThanMinDelta) {
  StopRules rules(study({}, {.patience = 1, .min_delta = 0.125}, Mode::kMax));
  const auto at = [&](int64_t t, double value) {
    return rules.on_report(0, t, {{"loss", value}}, 0).has_value();
  };
  EXPECT_FALSE(at(1, 0.5));
  EXPECT_TRUE(at(2, 0.625));
  EXPECT_FALSE(at(3, 0.65)) << "against the best that counted, 0.5";
}

TEST(Plateau, StopsNobodyInTheGracePeriod) {
  StopRules rules(study({}, {.patience = 1, .grace_period = 4}));
  for (int64_t t = 1; t < 4; ++t) EXPECT_FALSE(rules.on_report(0, t, {{"loss", 1}}, 0)) << t;
  EXPECT_EQ(rules.on_report(0, 4, {{"loss", 1}}, 0)->reason, "no better than 1 in 3 reports");
}

TEST(Plateau, NanIsNeverBetterAndAReportWithoutTheMetricDoesNotCount) {
  StopRules rules(study({}, {.patience = 2}));
  EXPECT_FALSE(rules.on_report(0, 1, {{"loss", kNan}}, 0));
  EXPECT_FALSE(rules.on_report(0, 2, {{"other", 1}}, 0));
  EXPECT_EQ(rules.on_report(0, 3, {{"loss", kNan}}, 0)->reason, "no loss in 2 reports");
}

TEST(Plateau, EachTrialWaitsForItselfAndIsForgottenAtItsEnd) {
  StopRules rules(study({}, {.patience = 1}));
  EXPECT_FALSE(rules.on_report(0, 1, {{"loss", 1}}, 0));
  EXPECT_FALSE(rules.on_report(1, 1, {{"loss", 2}}, 0));
  EXPECT_TRUE(rules.on_report(0, 2, {{"loss", 1}}, 0));
  rules.on_end(0);
  EXPECT_FALSE(rules.on_report(0, 1, {{"loss", 3}}, 0)) << "as new";
}

TEST(Plateau, NegativeNumbersAreRefused) {
  EXPECT_THAT(refusal_of([] { StopRules(study({}, {.patience = -1})); }),
              HasSubstr("patience and min_delta are not negative"));
}

}  // namespace
}  // namespace muster::tune
