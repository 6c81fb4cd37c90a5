// Objectives and constraints in words, and what a trial's reports make of them.
#include "muster/tune/objective/objective.h"

#include <cmath>

#include <gmock/gmock.h>

#include "tests/support/error_of.h"
#include "tests/support/numbers.h"

namespace muster::tune {
namespace {

using test::kInf;
using test::kNan;
using test::refusal_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Objective, IsAModeAndAMetric) {
  EXPECT_EQ(parse_objective("max accuracy", "here"), (Objective{"accuracy", Mode::kMax}));
  EXPECT_EQ(parse_objective("  min  step time ", "here"), (Objective{"step time", Mode::kMin}));
  EXPECT_EQ(objective_text({"step_s", Mode::kMin}), "min step_s");
  for (const char* text : {"", "accuracy", "max", "max ", "accuracy max", "best accuracy"}) {
    EXPECT_THAT(refusal_of([&] { parse_objective(text, "study.toml:3:1"); }),
                AllOf(HasSubstr("study.toml:3:1: objective"), HasSubstr("\"max accuracy\"")))
        << text;
  }
}

TEST(Constraint, IsAMetricAndABound) {
  EXPECT_EQ(parse_constraint("peak_mib<=900", "here"), (Constraint{"peak_mib", true, 900}));
  EXPECT_EQ(parse_constraint(" accuracy >= 0.8 ", "here"), (Constraint{"accuracy", false, 0.8}));
  EXPECT_EQ(constraint_text({"accuracy", false, 0.8}), "accuracy >= 0.8");
  for (const char* text : {"",
                           "peak_mib",
                           "peak_mib = 900",
                           "peak_mib < 900",
                           "900 <= peak_mib",
                           "peak_mib <= much",
                           "peak_mib <= inf",
                           "peak_mib <= nan",
                           "<= 3",
                           "a == b <= 3"}) {
    EXPECT_THAT(refusal_of([&] { parse_constraint(text, "here"); }), HasSubstr("here: constraint"))
        << text;
  }
}

Goals two_goals() {
  return {.objectives = {{"accuracy", Mode::kMax}, {"step_s", Mode::kMin}},
          .constraints = {{"peak_mib", true, 900}, {"accuracy", false, 0.5}}};
}

TEST(Goals, NewestNumbersCountWhicheverReportTheyCameIn) {
  const Goals goals = two_goals();
  GoalValues values = no_values(goals);
  EXPECT_EQ(values.missing(goals), "accuracy, step_s, peak_mib");
  take_metrics(goals, {{"accuracy", 0.25}, {"peak_mib", 1000}}, values);
  EXPECT_EQ(values.missing(goals), "step_s");
  EXPECT_FALSE(values.has_all_results());
  EXPECT_EQ(values.violation(), 100.25);
  take_metrics(goals, {{"step_s", 2}}, values);
  take_metrics(goals, {{"accuracy", 0.75}}, values);
  EXPECT_THAT(values.results, ElementsAre(0.75, 2));
  EXPECT_THAT(values.violations, ElementsAre(100, -0.25));
  EXPECT_EQ(values.violation(), 100) << "what a constraint has to spare pays for no other";
  EXPECT_TRUE(values.has_all_results());
  EXPECT_FALSE(values.is_feasible());
  take_metrics(goals, {{"peak_mib", 900}}, values);
  EXPECT_TRUE(values.is_feasible()) << "at the bound";
  EXPECT_THAT(scores_of(values.results, goals.objectives), ElementsAre(0.75, -2));
  EXPECT_EQ(results_text(values.results, goals.objectives), "accuracy 0.75, step_s 2");
}

TEST(Goals, WhatIsNoNumberSatisfiesNothing) {
  const Goals goals{.objectives = {}, .constraints = {{"peak_mib", true, 900}}};
  GoalValues values = no_values(goals);
  EXPECT_EQ(values.violation(), kInf) << "not reported";
  take_metrics(goals, {{"peak_mib", kNan}}, values);
  EXPECT_EQ(values.violation(), kInf);
  EXPECT_EQ(values.missing(goals), "") << "it was reported";
  take_metrics(goals, {{"peak_mib", -kInf}}, values);
  EXPECT_TRUE(values.is_feasible());
}

TEST(Metric, NewestAndBestAreOfTheNumbersThatThereAre) {
  double last = kNan, best = kNan;
  take_metric(kNan, Mode::kMin, last, best);
  EXPECT_TRUE(std::isnan(last) && std::isnan(best));
  take_metric(3, Mode::kMin, last, best);
  take_metric(5, Mode::kMin, last, best);
  EXPECT_EQ(last, 5);
  EXPECT_EQ(best, 3);
  take_metric(kNan, Mode::kMin, last, best);
  EXPECT_TRUE(std::isnan(last)) << "what it has now";
  EXPECT_EQ(best, 3);
  take_metric(-kInf, Mode::kMin, last, best);
  EXPECT_EQ(best, -kInf);
  take_metric(-kInf, Mode::kMax, last, best);
  EXPECT_EQ(best, -kInf);
}

TEST(Goals, AStudyOfOneMetricHasNone) {
  const Goals none;
  const GoalValues values = no_values(none);
  EXPECT_FALSE(none.any());
  EXPECT_TRUE(values.is_feasible());
  EXPECT_TRUE(values.has_all_results());
  EXPECT_EQ(values.missing(none), "");
}

}  // namespace
}  // namespace muster::tune
