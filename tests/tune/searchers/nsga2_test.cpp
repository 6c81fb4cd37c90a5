// NSGA-II as a searcher: generations, who is in them, and that it finds a front.
#include "muster/tune/searchers/nsga2.h"

#include <cmath>

#include <gmock/gmock.h>

#include "muster/tune/objective/hypervolume.h"
#include "muster/tune/search/searcher.h"

#include "tests/support/error_of.h"
#include "tests/support/numbers.h"

namespace muster::tune {
namespace {

using test::kNan;
using test::refusal_of;
using testing::HasSubstr;

const Space& square() {
  static const Space space = {{"x", uniform(0, 1)}, {"y", uniform(0, 1)}, {"z", uniform(0, 1)}};
  return space;
}

std::unique_ptr<Searcher> searcher_of_two(const std::string& spec, uint64_t seed = 1) {
  SearcherContext context{.space = square(), .seed = seed, .num_samples = -1};
  context.objectives = {{"f", Mode::kMin}, {"g", Mode::kMin}};
  return make_searcher(spec, context);
}

/// ZDT1 of three dimensions; its front is g = 1 - sqrt(f). Source: Zitzler, Deb, Thiele 2000.
Losses zdt1(const Point& x) {
  const double g = 1 + 9 * (x[1] + x[2]) / 2;
  return {x[0], g * (1 - std::sqrt(x[0] / g))};
}

/// Runs `trials` with as many slots, and returns the volume between the losses and (1.1, 1.1).
double volume_of(Searcher& searcher, int64_t trials, size_t slots) {
  std::vector<Losses> losses;
  std::vector<FinishedTrial> running;
  const Point open(3, kNan);
  for (int64_t number = 0; number < trials; ++number) {
    const auto suggestion = searcher.suggest(number, open);
    searcher.suggested(number, suggestion.point, suggestion.memo);
    const Losses found = zdt1(suggestion.point);
    losses.push_back(found);
    running.push_back(
        {.number = number, .point = suggestion.point, .scores = {-found[0], -found[1]}});
    if (running.size() < slots) continue;
    searcher.told(running.front());
    running.erase(running.begin());
  }
  return hypervolume(losses, std::vector<double>{1.1, 1.1});
}

TEST(Nsga2Searcher, FindsMoreOfAFrontThanRandomDraws) {
  for (const size_t slots : {1, 8}) {
    int better = 0;
    for (uint64_t seed = 0; seed < 10; ++seed) {
      const double ours = volume_of(*searcher_of_two("nsga2:population=20", seed), 200, slots);
      const double random = volume_of(*searcher_of_two("random", seed), 200, slots);
      better += ours > random ? 1 : 0;
    }
    EXPECT_GE(better, 9) << slots;
  }
}

TEST(TpeOfSeveralObjectives, FindsMoreOfAFrontThanRandomDraws) {
  int better = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const double ours = volume_of(*searcher_of_two("tpe", seed), 100, 1);
    const double random = volume_of(*searcher_of_two("random", seed), 100, 1);
    better += ours > random ? 1 : 0;
  }
  EXPECT_GE(better, 9);
}

std::string reason_at(Searcher& searcher, int64_t number) {
  return searcher.suggest(number, Point(3, kNan)).reason;
}

TEST(Nsga2Searcher, AGenerationIsOfThoseThatEndWithAllNumbers) {
  const auto searcher = searcher_of_two("nsga2:population=2");
  const auto tell = [&](int64_t number, TrialState state, std::vector<double> scores) {
    searcher->told(
        {.number = number, .point = {0.5, 0.5, 0.5}, .state = state, .scores = std::move(scores)});
  };
  tell(0, TrialState::kComplete, {1, 2});
  tell(1, TrialState::kFailed, {1, 2});
  tell(2, TrialState::kPruned, {1, 2});
  tell(3, TrialState::kComplete, {1, kNan});
  tell(4, TrialState::kComplete, {});
  EXPECT_EQ(reason_at(*searcher, 9), "generation 0");
  tell(5, TrialState::kComplete, {2, 1});
  EXPECT_EQ(reason_at(*searcher, 9), "generation 1");
}

TEST(Nsga2Searcher, ChildrenComeOfFeasibleParents) {
  const auto searcher = searcher_of_two("nsga2:population=4,mutation=0");
  for (int64_t number = 0; number < 8; ++number) {
    const bool good = number >= 4;
    // The infeasible ones dominate, and are told first.
    searcher->told({.number = number,
                    .point = Point(3, good ? 0.75 : 0.25),
                    .scores = {good ? -1. : 1., good ? -1. : 1.},
                    .violation = good ? 0. : 1.});
  }
  for (int64_t number = 8; number < 40; ++number)
    EXPECT_EQ(searcher->suggest(number, Point(3, kNan)).point, Point(3, 0.75));
}

TEST(Nsga2Searcher, RefusesWhatMakesNoSense) {
  EXPECT_THAT(nsga2({.population = 20}), testing::StartsWith("nsga2:population=20"));
  EXPECT_THAT(refusal_of([] { nsga2({.population = 1}); }), HasSubstr("population"));
  EXPECT_THAT(refusal_of([] { nsga2({.crossover = 1.5}); }), HasSubstr("crossover"));
}

}  // namespace
}  // namespace muster::tune
