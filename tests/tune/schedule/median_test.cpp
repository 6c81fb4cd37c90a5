#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/tune/schedule/median/median_options.h"
#include "muster/tune/schedule/median/running_means.h"
#include "muster/tune/schedule/median/step_percentiles.h"
#include "muster/tune/schedule/scheduler.h"

#include "tests/support/error_of.h"
#include "tests/support/numbers.h"

namespace muster::tune {
namespace {

using test::kInf;
using test::kNan;
using test::refusal_of;
using ::testing::HasSubstr;

std::unique_ptr<Scheduler> median_of(const MedianOptions& options, Mode mode = Mode::kMax) {
  return make_scheduler(median(options), {.mode = mode, .metric = "loss"});
}

TEST(RunningMeans, AreOfTheReportsBetweenGraceAndTheTime) {
  RunningMeans means(2);
  const size_t a = means.add_curve(), b = means.add_curve();
  means.add(a, 1, 100);
  means.add(a, 2, 1);
  means.add(a, 3, 2);
  means.add(a, 5, 6);
  means.add(b, 4, 10);
  for (int round = 0; round < 2; ++round) {  // asked anew, and kept
    EXPECT_EQ(means.at(2).median, 1) << "b has none at 2: its first report is later";
    EXPECT_EQ(means.at(4).median, (1.5 + 10) / 2);
    EXPECT_EQ(means.at(5).median, 3);
    EXPECT_EQ(means.at(5).n, 1U) << "b has not come to 5";
    EXPECT_EQ(means.at(6).n, 0U);
    EXPECT_TRUE(std::isnan(means.at(6).median));
    EXPECT_EQ(means.at(1).n, 0U);
  }
}

TEST(RunningMeans, OfEqualScoresIsThatScore) {
  RunningMeans means(1);
  const size_t curve = means.add_curve();
  for (int64_t t = 1; t <= 1000; ++t) means.add(curve, t, 0.1);
  for (const int64_t t : {3, 10, 999}) EXPECT_EQ(means.at(t).median, 0.1);
}

TEST(RunningMeans, AReportThatIsNotFiniteSpoilsTheMeansFromThereOn) {
  RunningMeans means(2);
  const size_t curve = means.add_curve();
  means.add(curve, 1, kNan);
  means.add(curve, 2, 3);
  means.add(curve, 3, kInf);
  means.add(curve, 4, 3);
  EXPECT_EQ(means.at(2).median, 3) << "what was before grace is not looked at";
  EXPECT_EQ(means.at(3).n, 0U);
  EXPECT_EQ(means.at(4).n, 0U);
}

/// What is kept as reports come is what looking at all curves gives.
TEST(RunningMeans, KeptOnesAreThoseThatAreMadeAnew) {
  std::mt19937 generator(3);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(generator()) % n; };
  std::vector<std::vector<std::pair<int64_t, double>>> curves;
  RunningMeans means(3);
  for (int step = 0; step < 3000; ++step) {
    if (curves.size() < 40 && below(10) == 0) {
      curves.emplace_back();
      means.add_curve();
    } else if (!curves.empty()) {
      const auto i = static_cast<size_t>(below(static_cast<int64_t>(curves.size())));
      auto& curve = curves[i];
      const int64_t t = (curve.empty() ? 0 : curve.back().first) + 1 + below(3);
      if (t > 60) continue;
      curve.emplace_back(t, below(50) == 0 ? kNan : static_cast<double>(below(100)));
      means.add(i, t, curve.back().second);
    }
    const int64_t asked = below(60);
    RunningMeans anew(3);
    for (size_t i = 0; i < curves.size(); ++i) {
      anew.add_curve();
      for (const auto& [t, score] : curves[i]) anew.add(i, t, score);
    }
    const auto expected = anew.at(asked), ours = means.at(asked);
    ASSERT_EQ(ours.n, expected.n) << step;
    if (ours.n == 0) continue;
    ASSERT_EQ(ours.median, expected.median) << step;
  }
}

TEST(Median, ATrialIsStoppedWhoseBestIsBelowTheOthersMeans) {
  const auto scheduler = median_of({.grace_period = 2}, Mode::kMin);
  for (const int64_t number : {0, 1, 2}) {
    for (const int64_t t : {1, 2, 3})
      EXPECT_EQ(scheduler->on_report(number, t, -static_cast<double>(number + t)), Decision{});
  }
  // Means over [2, 3]: 2.5, 3.5, 4.5.
  EXPECT_EQ(scheduler->on_report(3, 3, -3.5), Decision{}) << "equal goes on";
  EXPECT_EQ(scheduler->on_report(4, 1, -9), Decision{}) << "before grace";
  EXPECT_EQ(scheduler->on_report(4, 3, -4),
            (Decision{Action::kStop, "stopped at 3: best 4 > cutoff 3.5 (median of 4)"}));
  EXPECT_EQ(scheduler->on_report(5, 1, -1), Decision{});
  EXPECT_EQ(scheduler->on_report(5, 3, -100), Decision{}) << "its best counts";
  EXPECT_THAT(scheduler->status(), HasSubstr("1 stopped"));
}

TEST(Median, TrialsThatAreOverCountAndThoseThatAreBehindDoNot) {
  const auto scheduler = median_of({.min_samples_required = 2});
  for (const int64_t number : {0, 1}) {
    scheduler->on_report(number, 5, 1);
    scheduler->on_end(number, TrialState::kFailed);
  }
  EXPECT_EQ(scheduler->on_report(2, 6, 0), Decision{}) << "nobody has come to 6";
  EXPECT_EQ(scheduler->on_report(3, 5, 0).action, Action::kStop);
}

TEST(Median, NothingButNanIsStoppedOnceOthersAreThere) {
  const auto scheduler = median_of({.min_samples_required = 1, .hard_stop = false});
  EXPECT_EQ(scheduler->on_report(0, 1, kNan), Decision{});
  scheduler->on_report(1, 2, -5);
  EXPECT_EQ(scheduler->on_report(0, 2, kNan),
            (Decision{Action::kStop, "stopped at 2: no loss is a number (median of 1)"}));
}

TEST(Median, WithoutAHardStopTrialsPauseAndGoOnWhenNoNewOneComes) {
  const auto scheduler = median_of({.min_samples_required = 1, .hard_stop = false});
  EXPECT_TRUE(scheduler->pauses());
  EXPECT_FALSE(median_of({})->pauses());
  scheduler->on_report(0, 3, 1);
  EXPECT_EQ(scheduler->on_report(2, 3, 0).reason, "paused at 3: best 0 < cutoff 1 (median of 1)");
  scheduler->on_pause(2);
  EXPECT_EQ(scheduler->promote(), std::nullopt);
  scheduler->no_more_trials();
  const auto order = scheduler->promote();
  ASSERT_TRUE(order);
  EXPECT_EQ(order->number, 2);
  EXPECT_EQ(order->reason, "goes on, as no new trial comes: paused at 3");
  EXPECT_EQ(scheduler->on_report(2, 9, -100), Decision{}) << "to its end";
  EXPECT_EQ(scheduler->promote(), std::nullopt);
}

TEST(Median, AsOptunaItComparesWithCompleteTrialsAtTheSameStep) {
  const auto scheduler = median_of({.rule = "optuna", .n_startup_trials = 2});
  for (const int64_t number : {0, 1, 2}) {
    scheduler->on_report(number, 1, static_cast<double>(number));
    scheduler->on_report(number, 3, 10);
  }
  scheduler->on_end(0, TrialState::kComplete);
  scheduler->on_end(2, TrialState::kPruned);
  EXPECT_EQ(scheduler->on_report(4, 1, -1), Decision{}) << "one is complete";
  scheduler->on_end(1, TrialState::kComplete);
  EXPECT_EQ(scheduler->on_report(5, 1, 0.4),
            (Decision{Action::kStop,
                      "stopped at 1: best 0.4 < cutoff 0.5 (percentile 50 of 2 complete)"}));
  EXPECT_EQ(scheduler->on_report(6, 1, 0.5), Decision{});
  EXPECT_EQ(scheduler->on_report(6, 2, 0.5), Decision{}) << "nobody reported at 2";
  EXPECT_EQ(scheduler->on_report(7, 1, kNan).reason, "stopped at 1: no loss is a number");
  EXPECT_THAT(scheduler->status(), HasSubstr("2 complete, 2 stopped"));
}

TEST(Median, AnIntervalIsJudgedAtItsFirstReport) {
  EXPECT_TRUE(is_first_in_interval(3, -1, 0, 5));
  EXPECT_FALSE(is_first_in_interval(4, 3, 0, 5));
  EXPECT_TRUE(is_first_in_interval(7, 4, 0, 5));
  EXPECT_TRUE(is_first_in_interval(5, 4, 0, 5));
  EXPECT_TRUE(is_first_in_interval(2, 1, 2, 5));
  EXPECT_FALSE(is_first_in_interval(6, 2, 2, 5));
  EXPECT_TRUE(is_first_in_interval(7, 6, 2, 5));
}

TEST(Median, RefusesOptionsThatMakeNoSenseOrAreOfTheOtherRule) {
  const auto refused = [](const MedianOptions& options) {
    return refusal_of([&] { (void)median(options); });
  };
  EXPECT_THAT(refused({.rule = "mean"}), HasSubstr("rule is ray or optuna"));
  EXPECT_THAT(refused({.percentile = 25}), HasSubstr("go with rule=optuna"));
  EXPECT_THAT(refused({.rule = "optuna", .grace_period = 5}), HasSubstr("go with rule=ray"));
  EXPECT_THAT(refused({.rule = "optuna", .percentile = 101}), HasSubstr("between 0 and 100"));
  EXPECT_THAT(refused({.min_samples_required = 0}), HasSubstr("at least 1"));
  EXPECT_EQ(median({.rule = "optuna", .percentile = 25}), "median:rule=optuna,percentile=25");
}

}  // namespace
}  // namespace muster::tune
