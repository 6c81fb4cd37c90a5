// The searcher gp: what it makes of a study, and what must not break it.
#include "muster/tune/searchers/gp.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <numbers>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/tune/search/searcher.h"
#include "muster/tune/searchers/sobol.h"

#include "tests/support/error_of.h"
#include "tests/support/numbers.h"

namespace muster::tune {
namespace {

using test::kNan;
using test::refusal_of;
using ::testing::HasSubstr;

std::unique_ptr<Searcher> make_it(const std::string& spec, const Space& space, uint64_t seed = 1) {
  return make_searcher(spec, {.space = space, .seed = seed, .num_samples = -1});
}

/// A study as the core runs it, `slots` at once, first in, first out. Returns the best score so far
/// after each trial.
std::vector<double> best_so_far(Searcher& searcher,
                                const Space& space,
                                int64_t trials,
                                const std::function<FinishedTrial(int64_t, const Point&)>& run,
                                size_t slots = 1) {
  std::vector<double> out;
  std::deque<std::pair<int64_t, Point>> running;
  double best = -test::kInf;
  const auto end_oldest = [&] {
    const FinishedTrial trial = run(running.front().first, running.front().second);
    running.pop_front();
    searcher.told(trial);
    if (trial.score > best) best = trial.score;
    out.push_back(best);
  };
  for (int64_t number = 0; number < trials; ++number) {
    const auto suggestion = searcher.suggest(number, Point(space.dimensions().size(), kNan));
    EXPECT_EQ(suggestion.kind, Searcher::Suggestion::kPoint);
    const Point point = space.with_conditions(suggestion.point);
    searcher.suggested(number, point, suggestion.memo);
    running.emplace_back(number, point);
    if (running.size() == slots) end_oldest();
  }
  while (!running.empty()) end_oldest();
  return out;
}

auto scored(const std::function<double(const Point&)>& score) {
  return [score](int64_t number, const Point& point) {
    return FinishedTrial{.number = number, .point = point, .score = score(point), .step = 1};
  };
}

/// Dixon, Szegö 1978; its least value is 0.397887.
double minus_branin(const Point& p) {
  const double x = p[0], y = p[1], pi = std::numbers::pi;
  const double bend = y - 5.1 / (4 * pi * pi) * x * x + 5 / pi * x - 6;
  return -(bend * bend + 10 * (1 - 1 / (8 * pi)) * std::cos(x) + 10);
}

const Space& branin_space() {
  static const Space space = {{"x", uniform(-5, 10)}, {"y", uniform(0, 15)}};
  return space;
}

TEST(GpSearcher, FindsBraninsLeastValueWithinThirtyTrials) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const auto searcher = make_it("gp", branin_space(), seed);
    const auto best = best_so_far(*searcher, branin_space(), 30, scored(minus_branin));
    EXPECT_GT(best.back(), -0.397887 - 0.05) << seed;
  }
}

TEST(GpSearcher, WithFourAtOnceItSearchesFourPlaces) {
  const auto searcher = make_it("gp", branin_space());
  std::vector<Point> points;
  const auto best = best_so_far(
      *searcher,
      branin_space(),
      40,
      [&](int64_t number, const Point& point) {
        points.push_back(point);
        return scored(minus_branin)(number, point);
      },
      4);
  EXPECT_GT(best.back(), -0.397887 - 0.1);
  for (size_t i = 0; i + 1 < points.size(); ++i)
    for (size_t j = i + 1; j < std::min(points.size(), i + 4); ++j)
      EXPECT_GT(std::hypot(points[i][0] - points[j][0], points[i][1] - points[j][1]), 1e-6);
}

TEST(GpSearcher, WhoWasOnlyToldAnswersAsWhoWasAsked) {
  const Space space(
      std::vector<Parameter>{{.name = "x", .domain = uniform(0, 1)},
                             {.name = "kind", .domain = choice({"a", "b", "c"})},
                             {.name = "y", .domain = uniform(0, 1), .when = "kind == 'b'"}});
  const Point open(3, kNan);
  const auto asked = make_it("gp", space), told = make_it("gp", space);
  for (int64_t number = 0; number < 40; ++number) {
    const auto answer = asked->suggest(number, open);
    EXPECT_EQ(asked->suggest(number, open).point, answer.point) << "asked twice";
    if (number % 7 == 0) asked->suggest(number + 1000, open);  // and thrown away
    const Point point = space.with_conditions(answer.point);
    FinishedTrial trial{
        .number = number, .point = point, .score = -std::abs(point[0] - 0.3) + point[1], .step = 9};
    if (number % 6 == 5) trial.state = TrialState::kPruned, trial.step = 3;
    if (number % 9 == 5)
      trial.state = TrialState::kFailed, trial.failure = Failure::kOutOfMemory, trial.score = kNan;
    for (Searcher* searcher : {asked.get(), told.get()}) {
      searcher->suggested(number, point, answer.memo);
      searcher->reported(number, trial.step, trial.score);
      if (number % 4 != 3) searcher->told(trial);
    }
  }
  EXPECT_EQ(asked->suggest(40, open).point, told->suggest(40, open).point);
}

TEST(GpSearcher, TheCornerThatRunsOutOfMemoryIsLeftAlone) {
  const Space space = {{"width", uniform(0, 1)}, {"lr", uniform(0, 1)}};
  int64_t failed_late = 0;
  const auto searcher = make_it("gp", space);
  const auto best = best_so_far(*searcher, space, 50, [&](int64_t number, const Point& p) {
    FinishedTrial out{
        .number = number, .point = p, .score = p[0] - std::abs(p[1] - 0.4), .step = 1};
    if (p[0] <= 0.7) return out;  // the wider the better, while it fits
    failed_late += number >= 25 && p[0] > 0.75;
    out.state = TrialState::kFailed;
    out.failure = Failure::kOutOfMemory;
    out.score = kNan;
    return out;
  });
  EXPECT_LE(failed_late, 3) << "beyond where it is known by then that nothing fits";
  EXPECT_GT(best.back(), 0.69) << "and close to it";
}

TEST(GpSearcher, AConditionalTreeIsModelledToItsLeaves) {
  const Space space(std::vector<Parameter>{
      {.name = "optimizer", .domain = choice({"adam", "sgd"})},
      {.name = "beta", .domain = uniform(0, 1), .when = "optimizer == 'adam'"},
      {.name = "momentum", .domain = uniform(0, 1), .when = "optimizer == 'sgd'"},
      {.name = "lr", .domain = loguniform(1e-4, 1)}});
  const auto searcher = make_it("gp", space);
  const auto best = best_so_far(*searcher, space, 45, scored([](const Point& p) {
    const double leaf = p[0] == 0 ? 0.2 + std::abs(p[1] - 0.5) : 2 * std::abs(p[2] - 0.9);
    return -leaf - std::abs(std::log10(p[3]) + 2) / 4;
  }));
  EXPECT_GT(best.back(), -0.1);
}

TEST(GpSearcher, WhatWasTriedIsNotTriedAgainWhileThereIsMore) {
  const Space space = {{"a", randint(0, 5)}, {"b", choice({"x", "y", "z"})}};
  const auto searcher = make_it("gp", space);
  std::vector<Point> points;
  best_so_far(*searcher, space, 15 + 5, [&](int64_t number, const Point& p) {
    points.push_back(p);
    return scored([](const Point& q) { return -q[0]; })(number, p);
  });
  // The first ten are Sobol's, which may meet twice.
  std::vector<Point> modelled(points.begin() + 10, points.begin() + 14);
  std::ranges::sort(modelled);
  EXPECT_EQ(std::ranges::adjacent_find(modelled), modelled.end());
  std::ranges::sort(points);
  EXPECT_EQ(std::unique(points.begin(), points.end()) - points.begin(), 15)
      << "then again, from the best";
}

TEST(GpSearcher, BearsConstantScoresDuplicatesAndNumbersThatAreNone) {
  const Space space = {{"x", uniform(0, 1)},
                       {"one", randint(3, 4)},
                       {"same", choice({"only"})},
                       {"c", choice({"a", "b"})}};
  const std::vector<std::function<double(int64_t)>> scores = {
      [](int64_t) { return 0.0; },
      [](int64_t) { return 1e300; },
      [](int64_t) { return kNan; },
      [](int64_t i) { return i % 2 == 0 ? test::kInf : -test::kInf; },
      [](int64_t i) { return i % 3 == 0   ? kNan
                             : i % 3 == 1 ? 1e-200
                                          : -test::kInf; }};
  for (const auto& score : scores) {
    const auto searcher = make_it("gp:startup=3,samples=128", space);
    for (int64_t number = 0; number < 40; ++number) {
      const auto answer = searcher->suggest(number, Point(4, kNan));
      ASSERT_EQ(answer.point.size(), 4U);
      EXPECT_EQ(answer.point[1], 3);
      // Half of them the same point.
      const Point point = number % 2 == 0 ? Point{0.5, 3, 0, 1} : answer.point;
      searcher->suggested(number, point, answer.memo);
      searcher->told({.number = number, .point = point, .score = score(number), .step = 1});
    }
  }
}

TEST(GpSearcher, BearsASpaceWithoutChoiceAndOneOfFiftyDimensions) {
  const Space none = {{"a", randint(3, 4)}, {"b", choice({"only"})}};
  const auto without = make_it("gp:startup=1", none);
  const auto best = best_so_far(*without, none, 5, scored([](const Point&) { return 1.0; }));
  EXPECT_EQ(best.back(), 1);

  std::vector<Parameter> parameters;
  for (int i = 0; i < 50; ++i) {
    parameters.push_back({.name = concat("x", i),
                          .domain = i % 5 == 4 ? randint(0, 100) : uniform(0, 1),
                          .when = ""});
  }
  const Space wide(std::move(parameters));
  const auto searcher = make_it("gp:samples=256", wide);
  best_so_far(
      *searcher, wide, 30, scored([](const Point& p) { return -std::abs(p[0] - 0.5) - p[49]; }));
}

TEST(GpSearcher, BearsThousandsOfTrialsUnderWay) {
  const auto searcher = make_it("gp:samples=64", branin_space());
  const Point open(2, kNan);
  for (int64_t number = 0; number < 12; ++number) {
    const Point point = searcher->suggest(number, open).point;
    searcher->suggested(number, point, "");
    searcher->told({.number = number, .point = point, .score = minus_branin(point), .step = 1});
  }
  for (int64_t number = 12; number < 3000; ++number)
    searcher->suggested(number, branin_space().draw({}, 3, number), "");
  for (int64_t number = 3000; number < 3010; ++number) {
    const auto answer = searcher->suggest(number, open);
    searcher->suggested(number, answer.point, answer.memo);
  }
}

TEST(GpSearcher, PastMaxTrialsItModelsAPart) {
  const auto searcher = make_it("gp:max_trials=40,samples=256", branin_space());
  const auto best = best_so_far(*searcher, branin_space(), 120, scored(minus_branin));
  EXPECT_GT(best.back(), -0.397887 - 0.01);
}

/// Two objectives that pull x to both ends; the front is y = 0.5.
std::vector<double> pulled_apart(const Point& p) {
  const double off = (p[1] - 0.5) * (p[1] - 0.5);
  return {-p[0] * p[0] - off, -(p[0] - 1) * (p[0] - 1) - off};
}

SearcherContext context_of_two(const Space& space) {
  return {.space = space,
          .seed = 3,
          .num_samples = -1,
          .objectives = {{.metric = "a", .mode = Mode::kMax}, {.metric = "b", .mode = Mode::kMax}}};
}

TEST(GpSearcher, OfTwoObjectivesItFillsTheFront) {
  const Space space = {{"x", uniform(0, 1)}, {"y", uniform(0, 1)}};
  const auto searcher = make_searcher("gp:samples=256", context_of_two(space));
  std::vector<double> found;
  best_so_far(*searcher, space, 36, [&](int64_t number, const Point& p) {
    if (number >= 16 && std::abs(p[1] - 0.5) < 0.05) found.push_back(p[0]);
    const auto scores = pulled_apart(p);
    return FinishedTrial{
        .number = number, .point = p, .score = scores[0], .step = 1, .scores = scores};
  });
  EXPECT_GE(found.size(), 14U) << "of 20: on the front";
  std::ranges::sort(found);
  EXPECT_LT(found.front(), 0.2);
  EXPECT_GT(found.back(), 0.8);
  double widest = 0;
  for (size_t i = 0; i + 1 < found.size(); ++i) widest = std::max(widest, found[i + 1] - found[i]);
  EXPECT_LT(widest, 0.35);
}

TEST(GpSearcher, OfTwoObjectivesWhoWasOnlyToldAnswersAsWhoWasAsked) {
  const Space space = {{"x", uniform(0, 1)}, {"y", uniform(0, 1)}};
  const auto asked = make_searcher("gp:samples=128", context_of_two(space));
  const auto told = make_searcher("gp:samples=128", context_of_two(space));
  const Point open(2, kNan);
  for (int64_t number = 0; number < 24; ++number) {
    const auto answer = asked->suggest(number, open);
    EXPECT_EQ(asked->suggest(number, open).point, answer.point);
    FinishedTrial trial{.number = number, .point = answer.point, .step = 1};
    trial.scores = pulled_apart(answer.point);
    trial.score = trial.scores[0];
    if (number % 5 == 2) trial.violation = 1;
    if (number % 7 == 3) {
      trial.state = TrialState::kFailed;
      trial.scores = {kNan, kNan};
    }
    for (Searcher* searcher : {asked.get(), told.get()}) {
      searcher->suggested(number, answer.point, answer.memo);
      if (number % 6 != 5) searcher->told(trial);  // the others stay under way
    }
  }
  EXPECT_EQ(asked->suggest(24, open).point, told->suggest(24, open).point);
}

TEST(GpSearcher, OfTwoObjectivesATrialThatWasStoppedTeachesNothing) {
  const Space space = {{"x", uniform(0, 1)}, {"y", uniform(0, 1)}};
  const auto with = make_searcher("gp:startup=4,samples=128", context_of_two(space));
  const auto without = make_searcher("gp:startup=4,samples=128", context_of_two(space));
  for (int64_t number = 0; number < 6; ++number) {
    const Point point = draw_open(space, Point(2, kNan), 1, number);
    const auto scores = pulled_apart(point);
    for (Searcher* searcher : {with.get(), without.get()})
      searcher->told({.number = number, .point = point, .score = scores[0], .scores = scores});
    const Point other = draw_open(space, Point(2, kNan), 2, number);
    with->suggested(100 + number, other, "");
    with->told({.number = 100 + number,
                .point = other,
                .state = TrialState::kPruned,
                .score = 9,
                .step = 1,
                .scores = {9, 9}});
  }
  EXPECT_EQ(with->suggest(6, Point(2, kNan)).point, without->suggest(6, Point(2, kNan)).point);
}

TEST(GpSearcher, WarpIsRefusedWithSeveralObjectives) {
  const Space space = {{"x", uniform(0, 1)}};
  EXPECT_THAT(refusal_of([&] { make_searcher("gp:warp=true", context_of_two(space)); }),
              HasSubstr("warp in a study of several objectives"));
}

TEST(GpSearcher, RefusesWhatItCannotLearnAndOptionsThatAreNone) {
  const Space opaque = {{"x", uniform(0, 1)},
                        {"f", sample_from([](const Resolved&) { return Value(1); })}};
  EXPECT_THAT(refusal_of([&] { make_it("gp", opaque); }), HasSubstr("C++ function"));
  EXPECT_THAT(refusal_of([] { gp({.failed = "best"}); }), HasSubstr("worst or ignore"));
  EXPECT_EQ(gp({.deterministic = true}), "gp:deterministic=true");
}

TEST(SobolSearcher, TrialsHaveTheSequencesPointsInTurn) {
  const auto searcher = make_it(sobol({.scramble = false, .skip = 1}), branin_space());
  const std::vector<Point> expected = {{2.5, 7.5}, {6.25, 3.75}, {-1.25, 11.25}};
  for (int64_t number = 0; number < 3; ++number)
    EXPECT_EQ(searcher->suggest(number, Point(2, kNan)).point,
              expected[static_cast<size_t>(number)]);
}

TEST(SobolSearcher, RefusesMoreDimensionsThanItHasNumbersFor) {
  std::vector<Parameter> parameters;
  for (int i = 0; i < 482; ++i)
    parameters.push_back({.name = concat("x", i), .domain = uniform(0, 1), .when = ""});
  const Space space(std::move(parameters));
  EXPECT_THAT(refusal_of([&] { make_it("sobol", space); }), HasSubstr("at most 481 dimensions"));
  EXPECT_THAT(refusal_of([] { sobol({.skip = -1}); }), HasSubstr("at least 0"));
}

}  // namespace
}  // namespace muster::tune
