// What auto picks, and that a study keeps it.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/tune/core/study_core.h"
#include "muster/tune/search/searcher.h"

#include "tests/support/numbers.h"
#include "tests/tune/searchers/spaces.h"

namespace muster::tune {
namespace {

using test::kNan;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::unique_ptr<Searcher> auto_for(const Space& space, int64_t trials, int64_t slots = 0) {
  return make_searcher("auto", {.space = space, .seed = 7, .num_samples = trials, .slots = slots});
}

std::string picked_for(const Space& space, int64_t trials, int64_t slots = 0) {
  const std::string said = auto_for(space, trials, slots)->introduction();
  const std::string start = "auto picked ";
  EXPECT_THAT(said, StartsWith(start));
  return said.substr(start.size(), said.find(": ") - start.size());
}

TEST(Auto, SaysWhatItPickedAndWhy) {
  EXPECT_THAT(auto_for(unit_square(), 100, 2)->introduction(),
              HasSubstr(": 2 parameters, all numbers; 100 trials, 2 at a time"));
  const Space mixed(
      std::vector<Parameter>{{.name = "kind", .domain = choice({"a", "b"})},
                             {.name = "only", .domain = choice({1})},
                             {.name = "x", .domain = uniform(0, 1), .when = "kind == 'a'"},
                             {.name = "batch", .domain = grid_search({8, 16})}});
  EXPECT_THAT(
      auto_for(mixed, -1)->introduction(),
      HasSubstr(": 2 parameters, 1 of them a choice, some under conditions; trials without end"));
}

TEST(Auto, PicksByTrialsAndSpaceAsTheGuideHasIt) {
  const Space& numbers = unit_square();
  const Space choices = {{"x", uniform(0, 1)}, {"kind", choice({"a", "b"})}};
  std::vector<Parameter> twenty;
  for (int i = 0; i < 20; ++i)
    twenty.push_back({.name = "x" + std::to_string(i), .domain = uniform(0, 1)});
  const Space many(twenty);
  for (const Space* space : {&numbers, &choices, &many}) {
    EXPECT_EQ(picked_for(*space, 1), "gp:warp=true");
    EXPECT_EQ(picked_for(*space, 200, 16), "gp:warp=true");
  }
  for (const int64_t trials : {int64_t{201}, int64_t{1000}, int64_t{1001}, int64_t{-1}})
    EXPECT_EQ(picked_for(numbers, trials), "cma_es");
  for (const Space* space : {&choices, &many}) {
    EXPECT_EQ(picked_for(*space, 1000), "gp:warp=true");
    EXPECT_EQ(picked_for(*space, 1001), "tpe");
    EXPECT_EQ(picked_for(*space, -1), "tpe");
  }
}

TEST(Auto, DrawsAtRandomWhatNoModelCanLearn) {
  const Space opaque = {{"x", sample_from([](const Resolved&) { return Value(1); })}};
  EXPECT_EQ(picked_for(opaque, 50), "random");
  EXPECT_EQ(picked_for({{"batch", grid_search({8, 16})}}, 50), "random");
}

/// Of `objectives` metrics, or of one with constraints.
std::string picked_for_goals(const Space& space, int64_t trials, int objectives) {
  SearcherContext context{.space = space, .seed = 7, .num_samples = trials};
  for (int i = 0; objectives > 1 && i < objectives; ++i)
    context.objectives.push_back({"f" + std::to_string(i), Mode::kMin});
  context.has_constraints = objectives == 1;
  const std::string said = make_searcher("auto", context)->introduction();
  EXPECT_THAT(said, HasSubstr(objectives == 1 ? "constraints; " : " objectives; "));
  return said.substr(12, said.find(": ") - 12);
}

TEST(Auto, PicksForSeveralObjectivesAndConstraintsAsTheGuideHasIt) {
  const Space& numbers = unit_square();
  const Space choices = {{"x", uniform(0, 1)}, {"kind", choice({"a", "b"})}};
  for (const Space* space : {&numbers, &choices}) {
    EXPECT_EQ(picked_for_goals(*space, 400, 2), "tpe");
    EXPECT_EQ(picked_for_goals(*space, 1001, 2), "nsga2");
    EXPECT_EQ(picked_for_goals(*space, -1, 3), "nsga2");
    for (const int64_t trials : {10, 5000, -1})
      EXPECT_EQ(picked_for_goals(*space, trials, 1), "tpe");
  }
  EXPECT_EQ(picked_for_goals(numbers, 401, 2), "nsga2");
  EXPECT_EQ(picked_for_goals(numbers, 1000, 3), "tpe");
  EXPECT_EQ(picked_for_goals(choices, 1000, 2), "tpe");
}

TEST(Auto, SuggestsWhatThePickedOneSuggests) {
  const Space& space = unit_square();
  const auto of_auto = auto_for(space, 50);
  const auto picked =
      make_searcher(picked_for(space, 50), {.space = space, .seed = 7, .num_samples = 50});
  for (int64_t number = 0; number < 20; ++number) {
    const auto suggestion = of_auto->suggest(number, {kNan, kNan});
    const auto wanted = picked->suggest(number, {kNan, kNan});
    ASSERT_EQ(suggestion.point, wanted.point) << number;
    of_auto->suggested(number, suggestion.point, suggestion.memo);
    picked->suggested(number, wanted.point, wanted.memo);
    for (Searcher* each : {of_auto.get(), picked.get()})
      each->told({.number = number,
                  .point = wanted.point,
                  .score = -std::abs(wanted.point[0] - 0.3),
                  .step = 1});
  }
}

TEST(Auto, StaysWhatItWasWhenTheFirstTrialStarted) {
  const Space& space = unit_square();
  // Of Optuna, before the study's own first trial: whoever is picked hears of it.
  const FinishedTrial early{
      .number = outside_number(0), .point = {0.5, 0.5}, .score = 1, .step = 1};
  const auto first = auto_for(space, 50);
  first->told(early);
  const auto suggestion = first->suggest(0, {kNan, kNan});
  first->suggested(0, suggestion.point, suggestion.memo);

  const auto later = auto_for(space, -1);  // it would be another one now
  later->told(early);
  later->suggest(0, {kNan, kNan});
  later->suggested(0, suggestion.point, suggestion.memo);
  EXPECT_THAT(later->introduction(),
              StartsWith("auto goes on with " + picked_for(space, 50) +
                         ", which it picked when the study began; now it would be " +
                         picked_for(space, -1) + ": "));
  for (int64_t number = 1; number < 20; ++number) {
    const auto wanted = first->suggest(number, {kNan, kNan});
    const auto again = later->suggest(number, {kNan, kNan});
    ASSERT_EQ(again.point, wanted.point) << number;
    ASSERT_EQ(again.memo, wanted.memo) << number;
    for (Searcher* each : {first.get(), later.get()}) {
      each->suggested(number, wanted.point, wanted.memo);
      each->told({.number = number, .point = wanted.point, .score = wanted.point[0], .step = 1});
    }
  }
}

TEST(Auto, IsToldTheSlotsOfTheStudyWhichSaysWhatItPicked) {
  StudySpec spec{.name = "test", .metric = "loss", .num_samples = 9, .max_concurrent = 3};
  spec.space = unit_square();
  spec.searcher = "auto:max_concurrent=2";
  const StudyCore core(spec);
  EXPECT_THAT(core.searcher_introduction(), HasSubstr("9 trials, 3 at a time"));
  spec.searcher = "random";
  EXPECT_EQ(StudyCore(spec).searcher_introduction(), "");
}

}  // namespace
}  // namespace muster::tune
