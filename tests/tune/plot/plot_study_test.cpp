// What plots are made from: results, ranks, the choice of trials, rungs.
#include "muster/tune/plot/plot_study.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>

#include "muster/tune/plot/rung_counts.h"
#include "muster/tune/plot/smooth_field.h"

#include "tests/tune/plot/drawn_study.h"

namespace muster::tune {
namespace {

using test::many_trials;
using test::small_study;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsNan;

TEST(PlotStudy, RanksTrialsByTheirResult) {
  const PlotStudy study = plot_study(small_study());
  EXPECT_EQ(study.best, 3u) << "the best that is over, as best_of has it";
  // From the worst: 0.8, 0.4, 0.2, 0.1.
  EXPECT_THAT(study.merits,
              ElementsAre(DoubleNear(1 / 3., 1e-12), 0.0, IsNan(), 1.0, DoubleNear(2 / 3., 1e-12)));
  PlotInput input = small_study();
  input.facts.mode = Mode::kMax;
  EXPECT_EQ(plot_study(input).best, 1u);
  EXPECT_EQ(plot_study(input).merits[1], 1);
}

TEST(PlotStudy, AnInfiniteResultIsBestAndAtTheEdge) {
  PlotInput input = small_study();
  input.trials[0].last = input.trials[0].best = -std::numeric_limits<double>::infinity();
  const PlotStudy study = plot_study(input);
  EXPECT_EQ(study.best, 0u);
  EXPECT_EQ(study.merits[0], 1);
  EXPECT_EQ(result_text(study.results[0]), "-inf");
  EXPECT_EQ(infinite_note(study), "infinite values are at the edge");
  EXPECT_EQ(infinite_note(plot_study(small_study())), "");
}

TEST(PlotStudy, GivesEqualResultsTheMiddleOfTheirRanks) {
  PlotInput input = small_study();
  for (TrialHistory& trial : input.trials) trial.last = 0.5;
  const PlotStudy study = plot_study(input);
  EXPECT_THAT(study.merits, ElementsAre(0.5, 0.5, IsNan(), 0.5, 0.5));
}

TEST(PlotStudy, OrdersTrialsOfSeveralTunersAndOptunasByTheirBeginning) {
  PlotInput input = small_study();
  TrialHistory foreign = test::trial_of(0, input.trials[0].values, TrialState::kComplete, 0.3);
  foreign.foreign = true;
  foreign.started_s = 1015;
  TrialHistory waiting = foreign;
  waiting.state = TrialState::kPending;
  waiting.started_s = 0;
  input.trials.push_back(waiting);
  input.trials.push_back(foreign);
  const PlotStudy study = plot_study(input);
  EXPECT_TRUE(study.trials[2].foreign);
  EXPECT_EQ(study.trials[6].state, TrialState::kPending) << "what has not begun is last";
}

TEST(PlotStudy, ShowsTheBestAndEvenlyOthersOfMany) {
  PlotInput input = many_trials(10000);
  input.most_shown = 400;
  const PlotStudy study = plot_study(std::move(input));
  ASSERT_EQ(study.shown.size(), 400u);
  EXPECT_TRUE(std::ranges::is_sorted(study.shown));
  // The hundred best are all there.
  size_t best = 0;
  for (const size_t i : study.shown) best += study.merits[i] >= 1 - 99.5 / 9999;
  EXPECT_EQ(best, 100u);
  EXPECT_EQ(thinned_note(study, 400),
            "400 of 10,000 trials are drawn: the best 100, the others evenly");
  EXPECT_EQ(thinned_note(study, 10000), "");
  EXPECT_EQ(shown_trials(study, 40).size(), 40u);
}

TEST(PlotStudy, TakesParametersThatDifferByTheirImportance) {
  PlotInput input = small_study();
  EXPECT_THAT(varying_parameters(plot_study(input)), ElementsAre(0, 1, 2)) << "epochs is constant";
  input.importance = {{"optimizer", 0.7}, {"lr", 0.3}};
  input.importance_of = 4;
  EXPECT_THAT(varying_parameters(plot_study(input)), ElementsAre(0, 1, 2)) << "too few to say";
  input.importance_of = 5;
  EXPECT_THAT(varying_parameters(plot_study(input)), ElementsAre(2, 0, 1));
}

TEST(RungCounts, TellWhatBecameOfTrialsAtEachRung) {
  // Trials 0 and 3 came to 9, 1 was stopped at 3, 4 is at 1; 2 has no report.
  const auto rungs = rung_counts(plot_study(small_study()));
  ASSERT_EQ(rungs.size(), 3u);
  EXPECT_EQ(rungs[0].t, 1);
  EXPECT_EQ(rungs[0].came, 4);
  EXPECT_EQ(rungs[0].went_on, 3);
  EXPECT_EQ(rungs[0].open, 1);
  EXPECT_EQ(rungs[1].t, 3);
  EXPECT_EQ(rungs[1].came, 3);
  EXPECT_EQ(rungs[1].stopped, 1);
  EXPECT_EQ(rungs[2].t, 9);
  EXPECT_EQ(rungs[2].complete, 2);
  for (const RungCount& rung : rungs)
    EXPECT_EQ(rung.came, rung.went_on + rung.complete + rung.stopped + rung.open + rung.failed);
}

TEST(RungCounts, TakeTheSchedulersDefaultsAndStopAtWhatWasReached) {
  PlotInput input = small_study();
  input.scheduler = "asha";  // grace_period 1, reduction_factor 4, max_t 100
  EXPECT_THAT(rungs_of(plot_study(input)), ElementsAre(1, 4));
}

// A report's step may be any number that 64 bits hold.
TEST(RungCounts, EndAtTheLargestStepThereIs) {
  PlotInput input = small_study();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (TrialHistory& trial : input.trials) {
    trial.state = TrialState::kComplete;
    if (!trial.rows.empty()) trial.rows.back().t = kMost;
  }
  input.scheduler = "fifo";
  const auto doubled = rungs_of(plot_study(input));
  EXPECT_EQ(doubled.size(), 64u);
  EXPECT_TRUE(std::ranges::is_sorted(doubled));
  EXPECT_EQ(doubled.back(), kMost);
  input.scheduler = "asha:max_t=9223372036854775807,reduction_factor=1024";
  EXPECT_TRUE(std::ranges::is_sorted(rungs_of(plot_study(input))));
}

TEST(RungCounts, WithoutRungsInTheSchedulerAreWhereTrialsWereStopped) {
  PlotInput input = small_study();
  for (const char* scheduler : {"fifo", "", "no_such:x=1", "asha:max_t=", ":::"}) {
    input.scheduler = scheduler;
    EXPECT_THAT(rungs_of(plot_study(input)), ElementsAre(3, 9)) << scheduler;
  }
}

TEST(RungCounts, OfStopsAnywhereArePowersOfTwo) {
  PlotInput input;
  input.facts = small_study().facts;
  for (int64_t i = 1; i <= 20; ++i)
    input.trials.push_back(test::trial_of(i, {0.1, 0.1, "sgd", 10}, TrialState::kPruned, 1, i));
  EXPECT_THAT(rungs_of(plot_study(input)), ElementsAre(1, 2, 4, 8, 16, 20));
}

TEST(SmoothField, IsTheWeightedMeanNearbyAndNothingFarAway) {
  SmoothField field(10, 10);
  field.add(0.05, 0.05, 0.25);
  field.add(0.05, 0.05, 0.75);
  field.smooth();
  EXPECT_THAT(field.at(0, 0), DoubleNear(0.5, 1e-12));
  EXPECT_THAT(field.at(1, 0), DoubleNear(0.5, 1e-12));
  EXPECT_THAT(field.at(9, 9), IsNan());
  // Two values at one distance count alike; the nearer one counts more.
  SmoothField two(3, 1);
  two.add(1 / 6., 0.5, 0);
  two.add(5 / 6., 0.5, 1);
  two.smooth();
  EXPECT_LT(two.at(0, 0), 0.01);
  EXPECT_GT(two.at(2, 0), 0.99);
}

TEST(SmoothField, LetsACategorySayNothingOfAnother) {
  SmoothField field(2, 1, 2, 0);
  field.add(0.25, 0.5, 0);
  field.add(0.75, 0.5, 1);
  field.smooth();
  EXPECT_EQ(field.at(0, 0), 0);
  EXPECT_EQ(field.at(1, 0), 1);
}

}  // namespace
}  // namespace muster::tune
