#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/tune/schedule/asha/asha_options.h"
#include "muster/tune/schedule/asha/rung_ladder.h"
#include "muster/tune/schedule/scheduler.h"

#include "tests/support/error_of.h"
#include "tests/support/numbers.h"

namespace muster::tune {
namespace {

using test::refusal_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using test::kInf;
using test::kNan;

std::unique_ptr<Scheduler> stopping(const AshaOptions& options, Mode mode = Mode::kMax) {
  return make_scheduler(asha(options), {.seed = 1, .mode = mode, .metric = "loss"});
}

Action answer(Scheduler& scheduler, int64_t number, int64_t t, double score) {
  return scheduler.on_report(number, t, score).action;
}

/// Trials 0, 1, … report once each at t; "C" or "S" each.
std::string arrivals(Scheduler& scheduler, const std::vector<double>& scores, int64_t t = 1) {
  std::string out;
  for (size_t i = 0; i < scores.size(); ++i) {
    out +=
        answer(scheduler, static_cast<int64_t>(i), t, scores[i]) == Action::kContinue ? 'C' : 'S';
  }
  return out;
}

TEST(Asha, TheSpecHasWhatIsNotTheDefault) {
  EXPECT_EQ(asha({}), "asha");
  EXPECT_EQ(asha({.max_t = 10, .grace_period = 1, .reduction_factor = 2}),
            "asha:max_t=10,reduction_factor=2");
  EXPECT_EQ(asha({.variant = "promotion"}), "asha:variant=promotion");
}

TEST(Asha, OptionsThatMakeNoSenseAreRefusedAtOnce) {
  const auto refusal = [](const AshaOptions& options) {
    return refusal_of([&] { asha(options); });
  };
  EXPECT_THAT(refusal({.max_t = 3, .grace_period = 4}), HasSubstr("grace_period=4,max_t=3"));
  EXPECT_THAT(refusal({.grace_period = 0}), HasSubstr("1 <= grace_period"));
  EXPECT_THAT(refusal({.max_t = (int64_t{1} << 53) + 1}), HasSubstr("2^53"));
  EXPECT_THAT(refusal({.reduction_factor = 1}), HasSubstr("reduction_factor is above 1"));
  EXPECT_THAT(refusal({.reduction_factor = kNan}), HasSubstr("above 1"));
  EXPECT_THAT(refusal({.variant = "hyperband"}), HasSubstr("stopping or promotion"));
  EXPECT_THAT(refusal({.variant = "promotion", .ray_compat = true}), HasSubstr("Ray has no other"));
  EXPECT_THAT(refusal({.brackets = 0}), HasSubstr("at least 1"));
  EXPECT_THAT(refusal_of([] { stopping({.max_t = 100, .brackets = 5}); }),
              HasSubstr("there are 4 rungs"));
  EXPECT_THAT(refusal_of([] { stopping({.reduction_factor = 1.0000001}); }),
              HasSubstr("at most 64 rungs"));
  EXPECT_THAT(refusal_of([] { make_scheduler("asha:max=10", {}); }),
              HasSubstr("did you mean \"max_t\""));
  EXPECT_THAT(refusal_of([] { make_scheduler("ahsa", {}); }), HasSubstr("did you mean \"asha\""));
}

// ---- Rungs ----

TEST(Asha, RungsAreProductsSoThatTheTopOneIsThere) {
  EXPECT_THAT(rung_ladder(1, 1000, 10, 64), ElementsAre(1, 10, 100, 1000));
  EXPECT_THAT(rung_ladder(1, 243, 3, 64), ElementsAre(1, 3, 9, 27, 81, 243));
  EXPECT_THAT(rung_ladder(1, 125, 5, 64), ElementsAre(1, 5, 25, 125));
  EXPECT_THAT(rung_ladder(3, 50, 2, 64), ElementsAre(3, 6, 12, 24, 48));
  EXPECT_THAT(rung_ladder(10, 10, 2, 64), ElementsAre(10));
  EXPECT_EQ(rung_ladder(1, int64_t{1} << 53, 2, 64).back(), 0x1p53);
}

TEST(Asha, BracketsAreDrawnBySoftmaxOfTheirRungs) {
  // Ray: p = exp(rungs) normalised; 4, 3 and 2 rungs give 0.665, 0.245, 0.090.
  const std::array<size_t, 3> rungs = {4, 3, 2};
  constexpr int64_t kTrials = 100'000;
  std::array<double, 3> share{};
  for (int64_t number = 0; number < kTrials; ++number)
    share[draw_bracket(rungs, 7, number)] += 1. / kTrials;
  const double total = 1 + std::exp(-1) + std::exp(-2);
  for (size_t s = 0; s < 3; ++s) {
    const double p = std::exp(-static_cast<double>(s)) / total;
    EXPECT_NEAR(share[s], p, 4 * std::sqrt(p * (1 - p) / kTrials)) << s;
  }
  EXPECT_EQ(draw_bracket(rungs, 7, 41), draw_bracket(rungs, 7, 41));
}

TEST(Asha, TheBracketOfATrialDoesNotDependOnTheOrderOfTrials) {
  // One trial alone in the lowest rung of bracket 0 is told apart by the status.
  const AshaOptions options{.max_t = 100, .brackets = 3};
  const auto forwards = stopping(options), backwards = stopping(options);
  for (int64_t i = 0; i < 50; ++i) {
    answer(*forwards, i, 64, static_cast<double>(i));
    answer(*backwards, 49 - i, 64, static_cast<double>(49 - i));
  }
  const auto counts = [](const std::string& status) {
    std::vector<std::string> out;
    for (size_t at = 0; (at = status.find("n=", at)) != std::string::npos; ++at)
      out.push_back(status.substr(at, status.find_first_of(",;|", at) - at));
    return out;
  };
  EXPECT_EQ(counts(forwards->status()), counts(backwards->status()));
  EXPECT_THAT(forwards->status(), HasSubstr("bracket 2: rung 16: n="));
}

// ---- Stopping ----

TEST(AshaStopping, TheSequenceOfTheNotes) {
  // research/tune.md §3.2, measured with ray 2.60: mode max, eta 4, NaN is never stopped.
  const std::vector<double> scores = {3, 2, 4, 3.9, 5, 4.1, kNan, 4.2};
  const auto ray = stopping({.ray_compat = true});
  EXPECT_EQ(arrivals(*ray, scores), "CSCCCCCC");
  EXPECT_THAT(ray->status(), HasSubstr("rung 1: n=7, cutoff 4.15;"));
  EXPECT_EQ(arrivals(*stopping({}), scores), "CSCCCCSC");
}

/// The reason for which the last of several arrivals at t = 4 is stopped.
std::string last_reason(Mode mode, const std::vector<double>& metrics) {
  const auto scheduler = stopping({.max_t = 16}, mode);
  Decision last;
  for (size_t i = 0; i < metrics.size(); ++i)
    last = scheduler->on_report(static_cast<int64_t>(i), 4, score_of(metrics[i], mode));
  return last.reason;
}

TEST(AshaStopping, TheReasonIsInTheSignOfTheMetric) {
  EXPECT_EQ(last_reason(Mode::kMax, {0.437, 0.437, 0.437, 0.412}),
            "stopped at rung 4: 0.412 < cutoff 0.437 (n=3)");
  EXPECT_EQ(last_reason(Mode::kMin, {0.41, 0.41, 0.52}),
            "stopped at rung 4: 0.52 > cutoff 0.41 (n=2)");
  EXPECT_EQ(last_reason(Mode::kMax, {1, 1 - 1e-9}),
            "stopped at rung 4: 0.999999999 < cutoff 1 (n=1)");
  EXPECT_EQ(last_reason(Mode::kMin, {kNan}), "stopped at rung 4: loss is nan");
  EXPECT_EQ(last_reason(Mode::kMin, {kInf}), "stopped at rung 4: loss is inf");
}

TEST(AshaStopping, EqualScoresGoOn) {
  EXPECT_EQ(arrivals(*stopping({}), {0.5, 0.5, 0.5, 0.5, 0.5}), "CCCCC");
}

TEST(AshaStopping, AtMaxTATrialIsComplete) {
  const auto scheduler = stopping({.max_t = 10, .reduction_factor = 2});
  EXPECT_EQ(scheduler->on_report(0, 9, 1), Decision{});
  EXPECT_EQ(scheduler->on_report(0, 10, 1), (Decision{Action::kStop, "reached max_t 10", true}));
  EXPECT_TRUE(scheduler->on_report(1, 25, kNan).complete) << "behind it too, whatever the score";
}

TEST(AshaStopping, WithoutStopLastTrialsTheRuleAppliesAtMaxTAndTrialsGoOn) {
  const auto scheduler = stopping({.max_t = 4, .reduction_factor = 2, .stop_last_trials = false});
  EXPECT_EQ(scheduler->on_report(0, 4, 1), Decision{});
  EXPECT_EQ(scheduler->on_report(0, 5, 1), Decision{});
  EXPECT_EQ(scheduler->on_report(1, 4, 0.5).reason, "stopped at rung 4: 0.5 < cutoff 1 (n=1)");
}

TEST(AshaStopping, AReportThatPassesSeveralRungsIsBookedAtTheHighestOnly) {
  const auto ours = stopping({.max_t = 8, .reduction_factor = 2});
  const auto ray = stopping({.max_t = 8, .reduction_factor = 2, .ray_compat = true});
  for (const int64_t t : {5, 6, 7}) {
    EXPECT_EQ(answer(*ours, 0, t, static_cast<double>(t)), Action::kContinue);
    EXPECT_EQ(answer(*ray, 0, t, static_cast<double>(t)), Action::kContinue);
  }
  EXPECT_THAT(ours->status(),
              HasSubstr("rung 1: n=0; rung 2: n=0; rung 4: n=1, cutoff 5; rung 8: n=0"));
  // Ray: later reports fill the rungs below.
  EXPECT_THAT(ray->status(),
              HasSubstr("rung 1: n=1, cutoff 7; rung 2: n=1, cutoff 6; rung 4: n=1, cutoff 5"));
}

TEST(AshaStopping, TheEndOfATrialBooksNothing) {
  for (const bool ray_compat : {false, true}) {
    const auto scheduler = stopping({.max_t = 8, .reduction_factor = 2, .ray_compat = ray_compat});
    answer(*scheduler, 0, 2, 5);
    scheduler->on_end(0, TrialState::kComplete);
    // Ray's on_trial_complete books the last report once more, at the rung below.
    EXPECT_THAT(scheduler->status(), HasSubstr(ray_compat ? "rung 1: n=1" : "rung 1: n=0"));
    answer(*scheduler, 1, 4, 5);
    scheduler->on_end(1, TrialState::kFailed);  // on_trial_error books nothing in Ray either
    EXPECT_THAT(scheduler->status(), HasSubstr("rung 2: n=1, cutoff 5; rung 4: n=1"));
  }
}

TEST(AshaStopping, ATrialIsJudgedOncePerRungHoweverOftenItReports) {
  const auto scheduler = stopping({.max_t = 100});
  for (int64_t t = 1; t <= 15; ++t) answer(*scheduler, 0, t, 1);
  EXPECT_THAT(scheduler->status(), HasSubstr("rung 1: n=1, cutoff 1; rung 4: n=1, cutoff 1; "));
}

TEST(AshaStopping, AFailedScoreIsTheWorstOfItsRungAndDoesNotHideTheOthers) {
  const auto scheduler = stopping({.reduction_factor = 2});
  // Three of four are not finite: the median is infinite, and a finite score goes on.
  EXPECT_EQ(arrivals(*scheduler, {kNan, -kInf, kInf, 0.1, 0.2, 0.3, 0.05}), "SSSCCCC");
  EXPECT_EQ(arrivals(*stopping({.reduction_factor = 2}), {kNan, 0.1, 0.2, 0.3, 0.4, 0.05}),
            "SCCCCS");
}

TEST(AshaStopping, AFractionalReductionFactorHasRungsBetweenWholeTimes) {
  const auto scheduler = stopping({.max_t = 10, .reduction_factor = 2.5});
  answer(*scheduler, 0, 2, 1);
  EXPECT_THAT(scheduler->status(), HasSubstr("rung 2.5: n=0"));
  answer(*scheduler, 0, 3, 1);
  EXPECT_THAT(scheduler->status(), HasSubstr("rung 2.5: n=1"));
}

TEST(AshaStopping, AsManyOf27SurviveAsUnderRayAndTheBestAlwaysDoes) {
  // research/tune.md §3.2: 10.6 of n = 27 in random order at eta 3, measured with Ray's rule.
  constexpr int kRuns = 4000;
  std::mt19937 generator(5);
  std::vector<double> scores(27);
  std::iota(scores.begin(), scores.end(), 0);
  double survivors = 0;
  for (int run = 0; run < kRuns; ++run) {
    std::shuffle(scores.begin(), scores.end(), generator);
    const std::string answers = arrivals(*stopping({.reduction_factor = 3}), scores);
    survivors += static_cast<double>(std::ranges::count(answers, 'C'));
    const auto best = std::ranges::max_element(scores) - scores.begin();
    ASSERT_EQ(answers[static_cast<size_t>(best)], 'C');
  }
  EXPECT_NEAR(survivors / kRuns, 10.6, 0.1);
}

}  // namespace
}  // namespace muster::tune
