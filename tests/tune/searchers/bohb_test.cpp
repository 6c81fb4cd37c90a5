#include "muster/tune/searchers/bohb.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/tune/search/searcher.h"

#include "tests/support/error_of.h"
#include "tests/support/numbers.h"
#include "tests/tune/searchers/spaces.h"

namespace muster::tune {
namespace {

using test::kNan;
using test::refusal_of;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Trials one after another.
struct BohbStudy {
  explicit BohbStudy(const Space& its_space, const std::string& spec = "bohb", uint64_t seed = 1)
      : space(its_space), searcher(make_searcher(spec, {.space = space, .seed = seed})) {}

  Point ask(const Point& partial) {
    const auto suggestion = searcher->suggest(next, partial);
    EXPECT_EQ(suggestion.kind, Searcher::Suggestion::kPoint);
    reason = suggestion.reason;
    point = space.with_conditions(suggestion.point);
    searcher->suggested(next++, point, suggestion.memo);
    return suggestion.point;
  }
  Point ask() { return ask(Point(space.dimensions().size(), kNan)); }
  /// Of the trial that was asked for last.
  void report(int64_t t, double score) { searcher->reported(next - 1, t, score); }
  void end(int64_t step, double score, TrialState state = TrialState::kComplete) {
    searcher->told(
        {.number = next - 1, .point = point, .state = state, .score = score, .step = step});
  }
  void whole(int64_t step, double score) { report(step, score), end(step, score); }

  const Space& space;
  std::unique_ptr<Searcher> searcher;
  Point point;
  std::string reason;
  int64_t next = 0;
};

double at_a_quarter(const Point& point) {
  double score = 0;
  for (const double x : point) score -= std::isnan(x) ? 0 : (x - 0.25) * (x - 0.25);
  return score;
}

TEST(Bohb, LooksWhereGoodTrialsAre) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    BohbStudy study(unit_square(), "bohb", seed);
    double modelled = 0, random = 0;
    int64_t modelled_count = 0, random_count = 0;
    for (int i = 0; i < 300; ++i) {
      const double score = at_a_quarter(study.ask());
      const bool is_random = study.reason.starts_with("random");
      (is_random ? random : modelled) += score;
      ++(is_random ? random_count : modelled_count);
      study.whole(1, score);
    }
    EXPECT_GT(modelled / static_cast<double>(modelled_count),
              random / static_cast<double>(random_count) / 4);
    EXPECT_NEAR(static_cast<double>(random_count) / 300, 1. / 3, 0.1);
  }
}

TEST(Bohb, ModelsTheLargestStepThatEnoughTrialsHaveReached) {
  BohbStudy study(unit_square(), "bohb:random_fraction=0");
  for (int i = 0; i < 40; ++i) {
    const double score = at_a_quarter(study.ask());
    if (i < 6) {
      EXPECT_EQ(study.reason,
                "random: no step has enough results yet, the most are " + std::to_string(i));
    }
    if (i == 6) {
      EXPECT_EQ(study.reason, "model of step 1: 3 good of 6");
    }
    if (i == 18) {
      EXPECT_EQ(study.reason, "model of step 3: 3 good of 6") << "every third went on";
    }
    study.report(1, score);
    if (i % 3 == 2) study.report(3, score);
    study.end(i % 3 == 2 ? 3 : 1, score, i % 3 == 2 ? TrialState::kComplete : TrialState::kPruned);
  }
  EXPECT_EQ(study.reason, "model of step 3: 3 good of 13");
}

TEST(Bohb, FailedTrialsAreBadOnesOfTheStepThatIsModelled) {
  BohbStudy study(unit_square(), "bohb:random_fraction=0"),
      ignores(unit_square(), "bohb:random_fraction=0,failed=ignore");
  for (BohbStudy* one : {&study, &ignores}) {
    for (int i = 0; i < 20; ++i) {
      const double score = at_a_quarter(one->ask());
      if (i % 2 == 0) {
        one->whole(9, score);
      } else if (i % 4 == 1) {
        one->report(1, score), one->end(1, score, TrialState::kFailed);
      } else {
        one->end(0, kNan, TrialState::kFailed);
      }
    }
    one->ask();
  }
  EXPECT_EQ(study.reason, "model of step 9: 3 good of 20");
  EXPECT_EQ(ignores.reason, "model of step 9: 3 good of 10");
}

TEST(Bohb, WhatIsFixedStaysAndTheRestIsModelledWithIt) {
  // Good is y = x: knowing x tells y.
  BohbStudy study(unit_square(), "bohb:random_fraction=0,good_percent=30");
  double off = 0;
  for (int i = 0; i < 200; ++i) {
    Point partial(2, kNan);
    partial[0] = static_cast<double>(i % 5) / 4.5;
    const Point point = study.ask(partial);
    EXPECT_EQ(point[0], partial[0]);
    if (i >= 150) off += std::abs(point[1] - point[0]) / 50;
    study.whole(1, -std::abs(point[1] - point[0]));
  }
  EXPECT_LT(off, 0.2) << "a third at random";
}

TEST(Bohb, TrialsThatWereGivenAndThoseOfOptunaCount) {
  BohbStudy study(unit_square(), "bohb:random_fraction=0");
  for (int64_t i = 0; i < 3; ++i) {
    const Point point = draw_open(unit_square(), Point(2, kNan), 7, i);
    study.searcher->reported(1000 + i, 4, at_a_quarter(point));  // never suggested
    study.searcher->told(
        {.number = 1000 + i, .point = point, .score = at_a_quarter(point), .step = 4});
    study.searcher->told(
        {.number = outside_number(i), .point = point, .score = at_a_quarter(point), .step = 4});
  }
  study.ask();
  EXPECT_EQ(study.reason, "model of step 4: 3 good of 6");
}

TEST(Bohb, WhatIsNoNumberOrInfinitelyBadIsBad) {
  BohbStudy study(unit_square(), "bohb:random_fraction=0");
  double x = 0;
  for (int i = 0; i < 120; ++i) {
    const Point point = study.ask();
    if (i >= 100) x = std::max(x, point[0]);
    study.whole(1, point[0] > 0.5 ? (i % 2 == 0 ? kNan : -HUGE_VAL) : -point[1]);
  }
  EXPECT_LT(x, 0.7);
}

TEST(Bohb, OneThatWasOnlyToldEqualsOneThatWasAsked) {
  const Space space({{.name = "kind", .domain = choice({"a", "b", "c"})},
                     {.name = "x", .domain = loguniform(1e-3, 1), .when = "kind == 'a'"},
                     {.name = "n", .domain = qrandint(0, 50, 5), .when = "kind != 'a'"},
                     {.name = "z", .domain = randn(3, 2)}});
  BohbStudy asked(space);
  const auto told = make_searcher("bohb", {.space = space, .seed = 1});
  for (int64_t i = 0; i < 100; ++i) {
    const Point point = asked.ask();
    for (const double x : point) EXPECT_TRUE(std::isfinite(x));
    told->suggested(i, asked.point, "");
    for (int64_t t = 1; t <= 1 + i % 3; ++t) {
      asked.report(t, at_a_quarter(asked.point));
      told->reported(i, t, at_a_quarter(asked.point));
    }
    asked.end(1 + i % 3, at_a_quarter(asked.point));
    told->told(
        {.number = i, .point = asked.point, .score = at_a_quarter(asked.point), .step = 1 + i % 3});
  }
  const Point open(4, kNan);
  for (int64_t number = 100; number < 110; ++number)
    EXPECT_EQ(asked.searcher->suggest(number, open).point, told->suggest(number, open).point);
}

TEST(Bohb, BearsConstantsDuplicatesFiftyDimensionsAndThousandsUnderWay) {
  std::vector<Parameter> parameters;
  for (int i = 0; i < 50; ++i)
    parameters.push_back({.name = "x" + std::to_string(i),
                          .domain = i % 3 == 0   ? randint(0, 3)
                                    : i % 3 == 1 ? choice({"a", "b", "c"})
                                                 : uniform(-5, 5),
                          .when = ""});
  parameters.push_back({.name = "one", .domain = randint(4, 5), .when = ""});
  parameters.push_back({.name = "same", .domain = choice({"a"}), .when = ""});
  const Space space(parameters);
  for (const auto& score : std::vector<std::function<double(const Point&)>>{
           [](const Point&) { return 0.0; }, [](const Point&) { return kNan; }, &at_a_quarter}) {
    BohbStudy study(space);
    for (int i = 0; i < 250; ++i) {
      const Point point = study.ask();
      for (const double x : point) ASSERT_TRUE(std::isfinite(x));
      study.whole(1, score(point));
    }
    EXPECT_THAT(study.reason,
                ::testing::AnyOf(StartsWith("model of step 1"), StartsWith("random, as")));
  }
  BohbStudy same(unit_square(), "bohb:random_fraction=0");
  const Point here = {0.5, 0.5};
  for (int i = 0; i < 30; ++i) same.ask(here), same.whole(1, 1);
  for (const double x : same.ask()) EXPECT_NEAR(x, 0.5, 0.1) << "the least bandwidth";
  BohbStudy pending(unit_square());
  for (int i = 0; i < 5000; ++i) pending.ask();
}

TEST(Bohb, OptionsAreChecked) {
  EXPECT_THAT(refusal_of([] { bohb({.good_percent = 0}); }), HasSubstr("good_percent 1 to 99"));
  EXPECT_EQ(bohb({.candidates = 24}), "bohb:candidates=24");
  const Space opaque = {{"x", uniform(0, 1)},
                        {"f", sample_from([](const Resolved&) { return 1; })}};
  EXPECT_THAT(refusal_of([&] { make_searcher("bohb", {.space = opaque}); }),
              HasSubstr("C++ functions"));
}

}  // namespace
}  // namespace muster::tune
