// What every searcher keeps to, whoever added it. Runs over the table, and over the worked example
// of docs/add-a-searcher.md.
#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/text.h"
#include "muster/tune/search/searcher.h"

#include "tests/support/error_of.h"
#include "tests/support/numbers.h"
#include "tests/support/small_specs.h"

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
constexpr int64_t kContractTrials = 60;

constexpr std::string_view kOfTwo = "_of_two_objectives";

/// Those that take them also in a study of two objectives and constraints.
std::vector<std::string> names() {
  auto all = searchers().names();
  for (const auto* entry : searchers()) {
    if (entry->takes_goals) all.push_back(concat(entry->name, kOfTwo));
  }
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

/// A second objective that is against the first, and a constraint that some violate.
void add_goals(FinishedTrial& trial) {
  trial.scores = {trial.score, trial.number % 7 == 2 ? kNan : -trial.score};
  if (trial.number % 5 == 1 && trial.state != TrialState::kFailed) trial.violation = 0.5;
}

class SearcherContract : public ::testing::TestWithParam<std::string> {
 protected:
  bool of_two() const { return GetParam().ends_with(kOfTwo); }
  std::string name() const {
    return GetParam().substr(0, GetParam().size() - (of_two() ? kOfTwo.size() : 0));
  }
  const SearcherEntry& entry() const {
    const SearcherEntry* found = searchers().find(name());
    return found != nullptr ? *found : halton_entry;
  }
  /// With what a study of two objectives says besides.
  FinishedTrial ended(int64_t number, const Point& point) const {
    FinishedTrial trial = finished(space(), number, point);
    if (of_two()) add_goals(trial);
    return trial;
  }
  const Space& space() const { return entry().enumerates ? finite_space() : any_space(); }
  std::unique_ptr<Searcher> make(uint64_t seed = 1) const { return make_over(space(), seed); }
  std::unique_ptr<Searcher> make_over(const Space& space, uint64_t seed = 1) const {
    ParamValues few;  // for who looks among many points: under a sanitizer that takes minutes
    if (test::has_option(entry(), "samples")) few["samples"] = "32";
    if (of_two() && test::has_option(entry(), "population")) few["population"] = "8";
    SearcherContext context{.space = space, .seed = seed, .num_samples = kContractTrials};
    if (of_two()) context.objectives = {{"accuracy", Mode::kMax}, {"step_s", Mode::kMin}};
    return entry().make(context, few);
  }
  Point open() const { return Point(space().dimensions().size(), kNan); }
};

/// A search with `slots` trials at once, of which the one that started first ends first. Some report
/// before, and some pause then: they give their slot back, and end long after, or never.
class Search {
 public:
  using Tell = std::function<void(Searcher&)>;

  Search(const Space& space, size_t slots, bool pauses, bool of_two = false)
      : space_(space), slots_(slots), pauses_(pauses), of_two_(of_two) {}

  /// Until so many trials have started, or the searcher has no more. All `searchers` are asked, and
  /// must answer alike; `extra` times as often, and the answer of an extra time is thrown away.
  void run(const std::vector<Searcher*>& searchers, int64_t trials, int extra = 0) {
    while (static_cast<int64_t>(points.size()) < trials) {
      if (running_.size() == slots_) {
        end_first(searchers);
        continue;
      }
      const Suggestion suggestion = ask(searchers, extra);
      if (suggestion.kind == Suggestion::kFinished) return;
      if (suggestion.kind == Suggestion::kPoint) {
        start(searchers, suggestion);
      } else if (running_.empty()) {
        ADD_FAILURE() << "trial " << points.size() << " waits though nothing runs";
        return;
      } else {
        end_first(searchers);
      }
    }
  }

  std::vector<Point> points;
  std::vector<Tell> tells;  // all that was told, in order

 private:
  Suggestion ask(const std::vector<Searcher*>& searchers, int extra) const {
    const auto number = static_cast<int64_t>(points.size());
    const Point open(space_.dimensions().size(), kNan);
    const Suggestion first = searchers[0]->suggest(number, open);
    for (Searcher* searcher : searchers) {
      for (int i = 0; i < (searcher == searchers[0] ? extra : 1 + extra); ++i) {
        const Suggestion again = searcher->suggest(number, open);
        EXPECT_EQ(again.kind, first.kind) << number;
        EXPECT_EQ(again.point, first.point) << number;
        EXPECT_EQ(again.reason, first.reason) << number;
        EXPECT_EQ(again.memo, first.memo) << number;
      }
    }
    return first;
  }

  void tell(const std::vector<Searcher*>& searchers, const Tell& tell) {
    for (Searcher* searcher : searchers) tell(*searcher);
    tells.push_back(tell);
  }

  void start(const std::vector<Searcher*>& searchers, const Suggestion& suggestion) {
    const auto number = static_cast<int64_t>(points.size());
    points.push_back(suggestion.point);
    running_.push_back(number);
    const Point point = space_.with_conditions(suggestion.point);
    tell(searchers, [=, memo = suggestion.memo](Searcher& s) { s.suggested(number, point, memo); });
  }

  void end_first(const std::vector<Searcher*>& searchers) {
    const int64_t number = running_.front();
    running_.pop_front();
    FinishedTrial trial = finished(space_, number, points[static_cast<size_t>(number)]);
    if (of_two_) add_goals(trial);
    for (int64_t t = 1; t <= trial.step && number % 4 != 0; ++t)
      tell(searchers, [=](Searcher& s) { s.reported(number, t, trial.score); });
    if (!pauses_ || number % 4 != 1) {
      tell(searchers, [=](Searcher& s) { s.told(trial); });
    } else {
      tell(searchers, [=](Searcher& s) { s.paused(number); });
      if (number % 8 == 1) paused_.push_back(trial);
    }
    if (paused_.size() < 4) return;
    tell(searchers, [late = paused_.front()](Searcher& s) { s.told(late); });
    paused_.pop_front();
  }

  const Space& space_;
  size_t slots_;
  bool pauses_, of_two_;
  std::deque<int64_t> running_;
  std::deque<FinishedTrial> paused_;
};

TEST_P(SearcherContract, EveryPointIsInsideTheSpaceAndHasANumberEverywhere) {
  const auto searcher = make();
  Search search(space(), 3, false, of_two());
  search.run({searcher.get()}, kContractTrials);
  ASSERT_EQ(search.points.size(), static_cast<size_t>(kContractTrials));
  for (const Point& point : search.points) {
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
    searcher->suggested(number, space().with_conditions(suggestion.point), suggestion.memo);
    searcher->told(ended(number, suggestion.point));
  }
}

TEST_P(SearcherContract, TheSameSeedAndHistoryGiveTheSamePointsHoweverOftenItIsAsked) {
  const auto one = make(), same = make(), other = make(2);
  std::vector<std::vector<Point>> points;
  for (const auto& [searcher, extra] :
       {std::pair{one.get(), 0}, {same.get(), 3}, {other.get(), 0}}) {
    Search search(space(), 4, !of_two(), of_two());
    search.run({searcher}, kContractTrials, extra);
    points.push_back(search.points);
  }
  EXPECT_EQ(points[0], points[1]) << "asked more often";
  EXPECT_EQ(points[0] == points[2], entry().enumerates) << "another seed";
}

TEST_P(SearcherContract, OneThatWasAskedAndToldEqualsOneThatWasOnlyTold) {
  for (const int64_t before : {1, 7, 30}) {
    for (const bool pauses : {false, true}) {
      const auto asked = make(), only_told = make();
      Search search(space(), 4, pauses && !of_two(), of_two());
      search.run({asked.get()}, before);
      for (const auto& tell : search.tells) tell(*only_told);
      search.run({asked.get(), only_told.get()}, std::min(before + 20, kContractTrials));
    }
  }
}

TEST_P(SearcherContract, WhatRunsOutOfMemoryIsInfeasibleAndBorne) {
  const auto searcher = make();
  for (int64_t number = 0; number < 40; ++number) {
    const Suggestion suggestion = searcher->suggest(number, open());
    ASSERT_EQ(suggestion.kind, Suggestion::kPoint) << number;
    const Point point = space().with_conditions(suggestion.point);
    searcher->suggested(number, point, suggestion.memo);
    FinishedTrial trial = ended(number, point);
    if (number % 3 == 0) {
      trial = {.number = number,
               .point = point,
               .state = TrialState::kFailed,
               .score = kNan,
               .failure = Failure::kOutOfMemory};
      EXPECT_TRUE(trial.is_infeasible());
    }
    searcher->told(trial);
  }
}

TEST_P(SearcherContract, TrialsThatFailOrReportNothingUsableAreBorne) {
  const auto searcher = make();
  for (int64_t number = 0; number < 60; ++number) {
    const Suggestion suggestion = searcher->suggest(number, open());
    ASSERT_EQ(suggestion.kind, Suggestion::kPoint) << number;
    const Point point = space().with_conditions(suggestion.point);
    searcher->suggested(number, point, suggestion.memo);
    searcher->told({.number = number, .point = point, .state = TrialState::kFailed, .score = kNan});
  }
}

// Nothing is refused: a study may leave one value for each parameter, and repeat it.
TEST_P(SearcherContract, ASpaceWithoutFreedomHasItsOnePointForEveryTrial) {
  static const Space no_freedom = {{"one", randint(4, 5)}, {"same", choice({"a"})}};
  const auto searcher = make_over(no_freedom);
  for (int64_t number = 0; number < kContractTrials; ++number) {
    const Suggestion suggestion = searcher->suggest(number, Point(2, kNan));
    if (suggestion.kind == Suggestion::kFinished) {
      EXPECT_TRUE(entry().enumerates);
      EXPECT_EQ(number, 1);
      return;
    }
    ASSERT_EQ(suggestion.kind, Suggestion::kPoint) << number;
    ASSERT_EQ(suggestion.point, (Point{4, 0})) << number;
    searcher->suggested(number, suggestion.point, suggestion.memo);
    FinishedTrial trial = finished(no_freedom, number, suggestion.point);
    if (of_two()) add_goals(trial);
    searcher->told(trial);
  }
}

TEST_P(SearcherContract, TrialsOfAnotherProgramAreBorne) {
  const auto searcher = make();
  for (int64_t number = 0; number < 20; ++number)
    searcher->told(ended(outside_number(number), draw_open(space(), open(), 5, number)));
  const Suggestion first = searcher->suggest(0, open());
  EXPECT_EQ(first.kind, Suggestion::kPoint);
  searcher->suggested(0, space().with_conditions(first.point), first.memo);
  searcher->reported(1, 1, 0.5);  // was given, not asked
  searcher->told(ended(1, draw_open(space(), open(), 6, 1)));
  EXPECT_EQ(searcher->suggest(2, open()).kind, Suggestion::kPoint);
}

TEST_P(SearcherContract, AnUnknownParameterIsRefusedByName) {
  const std::string refusal = refusal_of([&] {
    entry().make({.space = space()}, {{"no_such_parameter", "1"}});
  });
  EXPECT_THAT(refusal, HasSubstr("searcher " + name() + " has no parameter"));
  EXPECT_FALSE(entry().help.empty());
  for (const Param& param : entry().params) EXPECT_FALSE(param.help.empty()) << param.name;
}

INSTANTIATE_TEST_SUITE_P(Table, SearcherContract, ::testing::ValuesIn(names()), [](const auto& i) {
  return i.param;
});

}  // namespace
}  // namespace muster::tune
