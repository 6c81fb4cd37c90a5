// What every searcher keeps to, whoever added it. Runs over the table, and over the worked example
// of docs/add-a-searcher.md.
#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/tune/search/searcher.h"

#include "tests/support/error_of.h"
#include "tests/support/numbers.h"

namespace muster::tune {

namespace worked {
extern const SearcherEntry halton_entry;  // worked_searcher_test.cpp
}

namespace {

using test::refusal_of;
using ::testing::HasSubstr;
using worked::halton_entry;
using Suggestion = Searcher::Suggestion;

using test::kNan;
constexpr int64_t kContractTrials = 120;

std::vector<std::string> names() {
  auto all = searchers().names();
  // Unless a reader of the guide has added it to the table.
  if (!searchers().find(halton_entry.name)) all.emplace_back(halton_entry.name);
  return all;
}

const Space& any_space() {
  static const Space space(std::vector<Parameter>{
      {.name = "u", .domain = uniform(-1, 3)},
      {.name = "lr", .domain = loguniform(1e-4, 1e-1)},
      {.name = "q", .domain = quniform(0, 1, 0.1)},
      {.name = "ql", .domain = qloguniform(1, 64, 0.5)},
      {.name = "layers", .domain = randint(1, 9)},
      {.name = "width", .domain = lograndint(1, 1000)},
      {.name = "step", .domain = qrandint(0, 100, 10)},
      {.name = "noise", .domain = randn(5, 2)},
      {.name = "optimizer", .domain = choice({"adam", "sgd", "rmsprop"})},
      {.name = "l1", .domain = sample_from("2 ** randint(2, 9)")},
      {.name = "momentum", .domain = uniform(0.8, 0.99), .when = "optimizer == 'sgd'"},
      {.name = "batch", .domain = grid_search({8, 16, 32})}});
  return space;
}

/// What a searcher that enumerates can take: 3 * 5 * 4 * 2 = 120 points.
const Space& finite_space() {
  static const Space space = {{"optimizer", choice({"adam", "sgd", "rmsprop"})},
                              {"q", quniform(0, 1, 0.25)},
                              {"layers", randint(1, 5)},
                              {"batch", grid_search({8, 16})}};
  return space;
}

/// Checked by the definitions in domain.h, not by the code that draws.
bool inside(const Distribution& distribution, double x) {
  const auto on_step = [&](double step, double from) {
    const double steps = (x - from) / step;
    return step <= 0 || std::abs(steps - std::round(steps)) < 1e-6;
  };
  if (const auto* d = std::get_if<FloatDistribution>(&distribution))
    return x >= d->low && (d->step > 0 ? x <= d->high : x < d->high) && on_step(d->step, 0);
  if (const auto* d = std::get_if<IntDistribution>(&distribution)) {
    return x >= static_cast<double>(d->low) && x <= static_cast<double>(d->high) &&
           x == std::floor(x) && on_step(static_cast<double>(d->step), static_cast<double>(d->low));
  }
  if (const auto* d = std::get_if<NormalDistribution>(&distribution))
    return std::isfinite(x) && std::abs(x - d->mean) < 20 * d->sd;
  const auto& choices = std::get<CategoricalDistribution>(distribution).choices;
  return x >= 0 && x < static_cast<double>(choices.size()) && x == std::floor(x);
}

/// A score with an optimum inside, and a few trials that fail or report nothing usable.
FinishedTrial finished(const Space& space, int64_t number, const Point& point) {
  FinishedTrial trial{.number = number, .point = space.with_conditions(point), .step = 3};
  if (number % 11 == 3) trial.state = TrialState::kFailed, trial.score = kNan;
  if (number % 11 == 4) trial.score = kNan;
  if (number % 11 == 5) trial.score = std::numeric_limits<double>::infinity();
  if (number % 11 == 6) trial.state = TrialState::kPruned;
  if (number % 11 == 3 || number % 11 == 4 || number % 11 == 5) return trial;
  for (const double x : trial.point) trial.score -= std::isnan(x) ? 0 : std::abs(x - 1);
  return trial;
}

class SearcherContract : public ::testing::TestWithParam<std::string> {
 protected:
  const SearcherEntry& entry() const {
    const SearcherEntry* found = searchers().find(GetParam());
    return found != nullptr ? *found : halton_entry;
  }
  const Space& space() const { return entry().enumerates ? finite_space() : any_space(); }
  std::unique_ptr<Searcher> make(uint64_t seed = 1) const {
    return entry().make({.space = space(), .seed = seed, .num_samples = kContractTrials}, {});
  }
  Point open() const { return Point(space().dimensions().size(), kNan); }

  /// A study of kContractTrials with `slots` trials at once, which finish first in, first out. Asks again
  /// `extra` times whenever the searcher waits.
  std::vector<Point> study(Searcher& searcher, size_t slots, int extra = 0) const {
    std::vector<Point> points;
    std::deque<int64_t> running;
    while (static_cast<int64_t>(points.size()) < kContractTrials) {
      const auto number = static_cast<int64_t>(points.size());
      Suggestion suggestion{.kind = Suggestion::kWait};
      if (running.size() < slots) suggestion = searcher.suggest(number, open());
      if (suggestion.kind == Suggestion::kFinished) break;
      if (suggestion.kind == Suggestion::kPoint) {
        points.push_back(suggestion.point);
        running.push_back(number);
        continue;
      }
      for (int i = 0; i < extra && running.size() < slots; ++i)
        EXPECT_EQ(searcher.suggest(number, open()).kind, Suggestion::kWait);
      if (running.empty()) {
        ADD_FAILURE() << "waits for trial " << number << " though all others have finished";
        break;
      }
      const int64_t first = running.front();
      running.pop_front();
      searcher.told(finished(space(), first, points[static_cast<size_t>(first)]));
    }
    return points;
  }
};

TEST_P(SearcherContract, EveryPointIsInsideTheSpaceAndHasANumberEverywhere) {
  const auto searcher = make();
  const auto points = study(*searcher, 3);
  ASSERT_EQ(points.size(), static_cast<size_t>(kContractTrials));
  for (const Point& point : points) {
    ASSERT_EQ(point.size(), space().dimensions().size());
    for (size_t d = 0; d < point.size(); ++d) {
      const Dimension& dimension = space().dimensions()[d];
      EXPECT_TRUE(inside(dimension.distribution, point[d]))
          << dimension.name << " = " << shortest(point[d]);
    }
    space().resolve(space().with_conditions(point));
  }
}

TEST_P(SearcherContract, WhatIsFixedStaysAsItIs) {
  const auto searcher = make();
  for (int64_t number = 0; number < 30; ++number) {
    Point partial = open();
    for (size_t d = 0; d < partial.size(); ++d) {
      if ((number + static_cast<int64_t>(d)) % 3 == 0)
        partial[d] = space().draw_dimension(d, 99, number);
    }
    const Suggestion suggestion = searcher->suggest(number, partial);
    if (suggestion.kind == Suggestion::kFinished) break;
    ASSERT_EQ(suggestion.kind, Suggestion::kPoint) << "waits, though nothing is open: " << number;
    for (size_t d = 0; d < partial.size(); ++d) {
      EXPECT_FALSE(std::isnan(suggestion.point[d]));
      if (!std::isnan(partial[d])) {
        EXPECT_EQ(suggestion.point[d], partial[d]) << d;
      }
    }
    searcher->told(finished(space(), number, suggestion.point));
  }
}

TEST_P(SearcherContract, TheSameSeedAndHistoryGiveTheSamePointsHoweverOftenItIsAsked) {
  const auto one = make(), same = make(), other = make(2);
  const auto points = study(*one, 4);
  EXPECT_EQ(points, study(*same, 4, 3)) << "asked more often while it waits";
  EXPECT_EQ(points == study(*other, 4), entry().enumerates) << "another seed";
}

TEST_P(SearcherContract, TrialsThatFailOrReportNothingUsableAreBorne) {
  const auto searcher = make();
  for (int64_t number = 0; number < 60; ++number) {
    const Suggestion suggestion = searcher->suggest(number, open());
    ASSERT_EQ(suggestion.kind, Suggestion::kPoint) << number;
    searcher->told({.number = number,
                    .point = space().with_conditions(suggestion.point),
                    .state = TrialState::kFailed,
                    .score = kNan});
  }
}

TEST_P(SearcherContract, TrialsOfAnotherProgramAreBorne) {
  const auto searcher = make();
  for (int64_t number = 0; number < 20; ++number)
    searcher->told(
        finished(space(), outside_number(number), draw_open(space(), open(), 5, number)));
  EXPECT_EQ(searcher->suggest(0, open()).kind, Suggestion::kPoint);
  searcher->told(finished(space(), 1, draw_open(space(), open(), 6, 1)));  // was given, not asked
  EXPECT_EQ(searcher->suggest(2, open()).kind, Suggestion::kPoint);
}

TEST_P(SearcherContract, AnUnknownParameterIsRefusedByName) {
  const std::string refusal = refusal_of([&] {
    entry().make({.space = space()}, {{"no_such_parameter", "1"}});
  });
  EXPECT_THAT(refusal, HasSubstr("searcher " + GetParam() + " has no parameter"));
  EXPECT_FALSE(entry().help.empty());
  for (const Param& param : entry().params) EXPECT_FALSE(param.help.empty()) << param.name;
}

INSTANTIATE_TEST_SUITE_P(Table, SearcherContract, ::testing::ValuesIn(names()), [](const auto& i) {
  return i.param;
});

}  // namespace
}  // namespace muster::tune
