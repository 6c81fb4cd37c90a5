#include "muster/tune/searchers/random_then_grid.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/tune/search/searcher.h"

#include "tests/support/error_of.h"
#include "tests/support/numbers.h"

namespace muster::tune {
namespace {

using test::refusal_of;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Suggestion = Searcher::Suggestion;

using test::kNan;

struct Step {
  Point point;
  std::string reason;
  double score;
};

/// What is suggested for trial `number`, which starts with it.
Suggestion taken(Searcher& searcher, int64_t number, const Point& open) {
  Suggestion suggestion = searcher.suggest(number, open);
  if (suggestion.kind == Suggestion::kPoint)
    searcher.suggested(number, suggestion.point, suggestion.memo);
  return suggestion;
}

/// `trials` one after another. The score of a point is `score`.
template <class Score>
std::vector<Step> searched(const Space& space,
                           const RandomThenGridOptions& options,
                           uint64_t seed,
                           int64_t trials,
                           Score&& score) {
  const auto searcher = make_searcher(random_then_grid(options), {.space = space, .seed = seed});
  std::vector<Step> steps;
  for (int64_t number = 0; number < trials; ++number) {
    const Suggestion suggestion = taken(*searcher, number, Point(space.dimensions().size(), kNan));
    EXPECT_EQ(suggestion.kind, Suggestion::kPoint);
    steps.push_back({suggestion.point, suggestion.reason, score(suggestion.point)});
    searcher->told({.number = number, .point = suggestion.point, .score = steps.back().score});
  }
  return steps;
}

/// 0 for the random start, k for round k.
int64_t round_of(const Step& step) {
  return step.reason.starts_with("round ") ? std::stoll(step.reason.substr(6)) : 0;
}

/// The best score up to the end of each round that was finished.
std::vector<double> best_by_round(const std::vector<Step>& steps) {
  std::vector<double> best;
  for (const Step& step : steps) {
    const auto round = static_cast<size_t>(round_of(step));
    if (round >= best.size()) best.resize(round + 1, best.empty() ? -HUGE_VAL : best.back());
    best[round] = std::max(best[round], step.score);
  }
  best.pop_back();
  return best;
}

TEST(RandomThenGrid, OnAQuadraticTheBestImprovesInEveryRound) {
  // Over 25 seeds, each with an optimum of its own. A single study may spend a round on narrowing
  // down: then its best is the nearest point of the new grid already.
  const Space space = {{"x", uniform(-5, 5)}, {"lr", loguniform(1e-5, 1)}};
  constexpr size_t kRounds = 8;
  std::vector<std::vector<double>> regret(kRounds);
  size_t idle = 0;
  for (uint64_t seed = 0; seed < 25; ++seed) {
    const double x = space.draw_dimension(0, seed, -1), lr = space.draw_dimension(1, seed, -1);
    const auto steps =
        searched(space, {.startup = 16, .top = 1}, seed, 260, [&](const Point& point) {
          return -std::pow((point[0] - x) / 10, 2) -
                 std::pow((std::log(point[1]) - std::log(lr)) / std::log(1e5), 2);
        });
    const auto best = best_by_round(steps);
    ASSERT_GE(best.size(), kRounds);
    for (size_t round = 0; round < kRounds; ++round) {
      regret[round].push_back(-best[round]);
      idle += round > 0 && best[round] == best[round - 1];
    }
  }
  for (size_t round = 0; round < kRounds; ++round) {
    std::ranges::sort(regret[round]);
    // The distance halves with the grid: the regret, its square, falls to a quarter.
    if (round > 0) {
      EXPECT_LT(regret[round][12], 0.5 * regret[round - 1][12]) << "round " << round;
    }
  }
  EXPECT_LT(idle, 25 * kRounds / 4);
  EXPECT_LT(regret.back()[12], 1e-4 * regret.front()[12]);
}

TEST(RandomThenGrid, BeatsRandomSearchWithMixedParameters) {
  // The seeds' space of research/tune.md §4.1, whose least value is 0.0236.
  const Space space = {
      {"l1", randint(2, 9)}, {"lr", loguniform(1e-4, 1e-1)}, {"batch_size", choice({2, 4, 8, 16})}};
  const auto loss = [](const Point& p) {
    constexpr double kBatch[] = {0.4, 0.1, 0, 0.2};
    const double u = std::log10(p[1]) + 2.3, v = p[0] - 6.5;
    return u * u + 0.1 * v * v + 0.15 * u * v + 0.05 * std::abs(p[2] + 1 - 3) * std::abs(u) +
           kBatch[static_cast<size_t>(p[2])];
  };
  std::vector<double> ours, random;
  for (uint64_t seed = 0; seed < 21; ++seed) {
    double best = HUGE_VAL, best_random = HUGE_VAL;
    for (const Step& step :
         searched(space, {.startup = 20}, seed, 100, [&](const Point& p) { return -loss(p); }))
      best = std::min(best, -step.score);
    for (int64_t number = 0; number < 100; ++number)
      best_random = std::min(best_random, loss(space.draw({}, seed, number)));
    ours.push_back(best);
    random.push_back(best_random);
  }
  std::ranges::sort(ours);
  std::ranges::sort(random);
  EXPECT_LT(ours[10], 0.0236 + 0.002);
  EXPECT_GT(random[10], 0.0236 + 0.005) << "else there was nothing to beat";
}

TEST(RandomThenGrid, NoPointIsTriedTwiceUntilASmallSpaceIsUsedUp) {
  const Space space = {{"a", randint(0, 6)}, {"b", choice({"x", "y", "z"})}};
  const auto steps =
      searched(space, {.startup = 4, .top = 2}, 3, 30, [](const Point& p) { return p[0] - p[1]; });
  std::set<Point> tried;
  size_t repeated = 0, random = 0;
  for (const Step& step : steps) {
    random += round_of(step) == 0;
    repeated += round_of(step) > 0 && tried.contains(step.point);
    tried.insert(step.point);
  }
  EXPECT_EQ(repeated, 0U);
  EXPECT_TRUE(tried.contains(Point{5, 0})) << "the best of all";
  EXPECT_THAT(steps.back().reason, StartsWith("random: the grids around the best are used up"));
  EXPECT_GT(random, 4U);
}

TEST(RandomThenGrid, SaysWhereATrialComesFrom) {
  const Space space = {{"x", uniform(0, 1)}};
  const auto steps =
      searched(space, {.startup = 3, .top = 1}, 1, 12, [](const Point& p) { return -p[0]; });
  EXPECT_EQ(steps[0].reason, "random start 1 of 3");
  EXPECT_EQ(steps[2].reason, "random start 3 of 3");
  const auto best = std::ranges::min_element(
      steps.begin(), steps.begin() + 3, {}, [](auto& step) { return step.point[0]; });
  EXPECT_EQ(steps[3].reason, "round 1 around trial " + std::to_string(best - steps.begin()));
}

TEST(RandomThenGrid, StoppedTrialsComeAfterCompleteOnes) {
  const Space space = {{"x", uniform(0, 1)}};
  const auto searcher =
      make_searcher("random_then_grid:startup=2,top=1", {.space = space, .seed = 1});
  const Point open = {kNan};
  for (int64_t number = 0; number < 2; ++number) {
    // The stopped one has the better number, of an earlier step.
    searcher->told({.number = number,
                    .point = taken(*searcher, number, open).point,
                    .state = number == 0 ? TrialState::kPruned : TrialState::kComplete,
                    .score = number == 0 ? 1. : 0.});
  }
  EXPECT_EQ(taken(*searcher, 2, open).reason, "round 1 around trial 1");
}

TEST(RandomThenGrid, WaitsForItsRoundToFinish) {
  const Space space = {{"x", uniform(0, 1)}};
  const auto searcher = make_searcher("random_then_grid:startup=2", {.space = space});
  const Point open = {kNan};
  const Point first = taken(*searcher, 0, open).point, second = taken(*searcher, 1, open).point;
  EXPECT_EQ(taken(*searcher, 2, open).kind, Suggestion::kWait);
  searcher->told({.number = 1, .point = second, .score = 1});
  EXPECT_EQ(taken(*searcher, 2, open).kind, Suggestion::kWait);
  searcher->told({.number = 0, .point = first, .state = TrialState::kFailed, .score = kNan});
  EXPECT_EQ(taken(*searcher, 2, open).reason, "round 1 around trial 1");
}

TEST(RandomThenGrid, BeginsItsGridsWhenTheFirstTrialSucceeds) {
  const Space space = {{"x", uniform(0, 1)}};
  const auto searcher = make_searcher("random_then_grid:startup=1", {.space = space});
  const Point open = {kNan};
  for (int64_t number = 0; number < 5; ++number) {
    const Suggestion suggestion = taken(*searcher, number, open);
    EXPECT_THAT(suggestion.reason, StartsWith("random"));
    const bool fails = number < 4;
    searcher->told({.number = number,
                    .point = suggestion.point,
                    .state = fails ? TrialState::kFailed : TrialState::kComplete,
                    .score = fails ? kNan : 1});
  }
  EXPECT_THAT(taken(*searcher, 5, open).reason, HasSubstr("around trial 4"));
}

TEST(RandomThenGrid, OptionsThatMakeNoSenseAreRefused) {
  for (const RandomThenGridOptions& options : std::vector<RandomThenGridOptions>{{.startup = 0},
                                                                                 {.top = 0},
                                                                                 {.points = 1},
                                                                                 {.shrink = 0},
                                                                                 {.shrink = 1.5},
                                                                                 {.shrink = kNan},
                                                                                 {.max_grid = 0}})
    EXPECT_THAT(refusal_of([&] { random_then_grid(options); }), HasSubstr("random_then_grid"));
  EXPECT_EQ(random_then_grid({.top = 1}), "random_then_grid:top=1");
}

}  // namespace
}  // namespace muster::tune
