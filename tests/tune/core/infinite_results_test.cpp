// Results that are not finite: which are best, in a study that runs and in its log.
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/tune/views/history.h"

#include "tests/tune/core/core_by_hand.h"

namespace muster::tune {
namespace {

using test::kInf;
using testing::ElementsAre;

/// Runs a trial with one report to its end.
void end_with(StudyCore& core, const Metrics& metrics) {
  const int64_t number = start(core);
  core.report(number, {.metrics = metrics}, 1);
  core.ended(number, Failure::kNone, "", 2);
}

// As optuna 5.0.0's Study.best_trial: the least of 1, -inf, inf and 0.5 is -inf.
TEST(InfiniteResults, MayBeTheBestAndNanNever) {
  for (const Mode mode : {Mode::kMin, Mode::kMax}) {
    StudySpec spec = spec_with(5);
    spec.mode = mode;
    StudyCore core(spec);
    for (const double value : {1.0, kNan, -kInf, kInf, 0.5}) end_with(core, {{"loss", value}});
    const int64_t wanted = mode == Mode::kMin ? 2 : 3;
    ASSERT_NE(core.best(), nullptr);
    EXPECT_EQ(core.best()->number, wanted);
    const std::vector<Event> events = core.take_events();
    const std::vector<TrialHistory> trials = histories(events, facts_of(spec));
    EXPECT_EQ(best_of(trials, facts_of(spec))->number, wanted);
  }
}

// optuna 5.0.0: the best_trials of these are 0, 1 and 4.
TEST(InfiniteResults, MayBeOnTheFront) {
  StudySpec spec = spec_with(20);
  set_objectives(spec, {{"a", Mode::kMin}, {"b", Mode::kMin}});
  StudyCore core(spec);
  for (const auto& [a, b] :
       std::vector<std::pair<double, double>>{{1, 2}, {-kInf, 3}, {kInf, 1}, {2, 2}, {kInf, 0.5}})
    end_with(core, {{"a", a}, {"b", b}});
  EXPECT_THAT(core.front(), ElementsAre(0, 1, 4));
  const std::vector<Event> events = core.take_events();
  const std::vector<TrialHistory> trials = histories(events, facts_of(spec));
  std::vector<int64_t> numbers;
  for (const TrialHistory* one : front_of(trials, facts_of(spec))) numbers.push_back(one->number);
  EXPECT_THAT(numbers, ElementsAre(0, 1, 4));
}

}  // namespace
}  // namespace muster::tune
