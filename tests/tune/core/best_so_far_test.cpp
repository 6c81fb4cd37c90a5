// The best trial before any has ended with a result: as a walk over all trials finds it, and without
// that walk.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/tune/core/core_by_hand.h"

namespace muster::tune {
namespace {

using test::kInf;

/// By the rule, from nothing but what the core shows: the best of those that are over; while there is
/// none, the best of the others. Of equal ones the first.
const Trial* best_by_walk(const StudyCore& core) {
  for (const bool over : {true, false}) {
    const Trial* best = nullptr;
    for (const Trial& trial : core.trials()) {
      const double result = core.result(trial);
      if (is_over(trial.state) != over || trial.state == TrialState::kFailed ||
          std::isnan(result) || !trial.goals.is_feasible())
        continue;
      const bool less = best != nullptr && result < core.result(*best);
      const bool more = best != nullptr && result > core.result(*best);
      if (best == nullptr || (core.spec().mode == Mode::kMin ? less : more)) best = &trial;
    }
    if (best != nullptr) return best;
  }
  return nullptr;
}

/// One trial that goes on reports a value of few, so that many are equal, or ends.
void go_on(StudyCore& core, std::vector<int64_t>& running, std::mt19937& draw, bool may_succeed) {
  const size_t place = draw() % running.size();
  const int64_t number = running[place];
  const double values[] = {0.1, 0.2, 0.3, 0.3, kNan, kInf, -kInf};
  switch (draw() % 4) {
    case 0:
    case 1:
      core.report(
          number,
          {.metrics = {{"loss", values[draw() % 7]}, {"peak", static_cast<double>(draw() % 3)}}},
          1);
      return;
    case 2:
      core.ended(number, Failure::kCrash, "", 2);
      break;
    default:
      core.ended(number, may_succeed ? Failure::kNone : Failure::kInterrupted, "", 2);
  }
  if (trial(core, number).state != TrialState::kRunning)
    running.erase(running.begin() + static_cast<std::ptrdiff_t>(place));
}

TEST(BestSoFar, IsWhatAWalkOverAllTrialsFinds) {
  std::mt19937 draw(7);
  for (int history = 0; history < 60; ++history) {
    StudySpec spec = spec_with(-1);
    spec.mode = history % 2 == 0 ? Mode::kMin : Mode::kMax;
    spec.scope = history % 4 < 2 ? StudySpec::Scope::kLast : StudySpec::Scope::kBest;
    if (history % 3 == 0) spec.goals.constraints = {{"peak", true, 1}};
    spec.give_up_after = 0;
    for (FailurePolicy& policy : spec.failures) policy = {.retries = 1, .backoff_s = 0};
    StudyCore core(spec);
    std::vector<int64_t> running;
    for (int step = 0; step < 120; ++step) {
      if (running.size() < 4) {
        const int64_t started = start(core, 3);
        running.push_back(started);
      }
      go_on(core, running, draw, /*may_succeed=*/history % 5 == 0 && step > 60);
      ASSERT_EQ(core.best(), best_by_walk(core)) << "history " << history << ", step " << step;
    }
  }
}

/// The processor's seconds of a study whose trials report and then fail, with a look at the best one
/// at each failure.
double failing_study_s(int64_t trials, bool looks) {
  StudySpec spec = spec_with(trials);
  spec.give_up_after = 0;
  StudyCore core(spec);
  const std::clock_t begin = std::clock();
  int64_t seen = 0;
  for (int64_t number = 0; number < trials; ++number) {
    start(core);
    core.report(number, loss(1), 1);
    core.ended(number, Failure::kCrash, "", 2);
    core.discard_events();
    if (looks && core.best() != nullptr) ++seen;
  }
  EXPECT_EQ(seen, 0) << "no trial that failed is the best one";
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

// With a walk over all trials at each failure its cost would grow with the square of the trials.
TEST(BestSoFar, CostsAStudyThatOnlyFailsNoWalkPerFailure) {
  constexpr int64_t kTrials = 30'000;
  failing_study_s(1000, true);  // what is done once
  const double without = failing_study_s(kTrials, false);
  EXPECT_LT(failing_study_s(kTrials, true), 3 * without + 0.05);
}

}  // namespace
}  // namespace muster::tune
