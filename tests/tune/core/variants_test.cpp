// Counts and order of Ray Tune's variants; tests/parity/test_tune_variants.py compares them live.
#include "muster/tune/core/variants.h"

#include <cmath>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/text.h"
#include "muster/tune/search/searcher.h"

#include "tests/support/error_of.h"

namespace muster::tune {
namespace {

using test::refusal_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The values that are fixed for each trial: "a=1 b=x"; "?" is left to the searcher.
std::vector<std::string> fixed(const StudySpec& spec, int64_t trials) {
  const Variants variants(spec);
  std::vector<std::string> out;
  for (int64_t number = 0; number < trials; ++number) {
    const Point point = variants.partial(number);
    std::string text;
    for (size_t d = 0; d < point.size(); ++d) {
      const Dimension& dimension = spec.space.dimensions()[d];
      const auto* grid = std::get_if<CategoricalDistribution>(&dimension.distribution);
      std::string value = "?";
      if (!std::isnan(point[d]))
        value =
            grid ? value_text(grid->choices[static_cast<size_t>(point[d])]) : shortest(point[d]);
      text += (d == 0 ? "" : " ") + dimension.name + "=" + value;
    }
    out.push_back(text);
  }
  return out;
}

StudySpec two_grids() {
  return {
      .num_samples = 2,
      .space = {{"b", grid_search({"x", "y"})}, {"a", grid_search({1, 2})}, {"lr", uniform(0, 1)}}};
}

TEST(Variants, SortedByNameTheFirstVariesFastest) {
  // research/tune.md §3.1: 1x 2x 1y 2y.
  EXPECT_EQ(Variants(two_grids()).trials(), 8);
  EXPECT_THAT(
      fixed(two_grids(), 5),
      ElementsAre("b=x a=1 lr=?", "b=x a=2 lr=?", "b=y a=1 lr=?", "b=y a=2 lr=?", "b=x a=1 lr=?"));
}

TEST(Variants, NestedNamesAreSortedPartByPart) {
  const StudySpec spec{.space = {{"a-b", grid_search({1, 2})}, {"a.z", grid_search({1, 2})}}};
  EXPECT_THAT(fixed(spec, 2), ElementsAre("a-b=1 a.z=1", "a-b=1 a.z=2"))
      << "as text, \"a-b\" would come first";
}

TEST(Variants, PointsComeFirstAndCountTowardsNumSamples) {
  // The example in the documentation of Ray's BasicVariantGenerator: six trials of four samples.
  const StudySpec spec{.num_samples = 4,
                       .space = {{"a", grid_search({1, 2})}, {"b", randint(0, 3)}},
                       .points_to_evaluate = {{{"a", 2}, {"b", 2}}, {{"a", 1}}, {{"b", 2}}}};
  EXPECT_EQ(Variants(spec).trials(), 6);
  EXPECT_THAT(fixed(spec, 6),
              ElementsAre("a=2 b=2", "a=1 b=?", "a=1 b=2", "a=2 b=2", "a=1 b=?", "a=2 b=?"));
}

TEST(Variants, MorePointsThanSamplesAreAllTried) {
  StudySpec spec{.num_samples = 1, .space = {{"x", uniform(0, 1)}}};
  for (const double x : {0.25, 0.5, 0.75}) spec.points_to_evaluate.push_back({{"x", x}});
  EXPECT_EQ(Variants(spec).trials(), 3);
}

TEST(Variants, WithoutEndTheGridGoesRoundAndRound) {
  StudySpec spec = two_grids();
  spec.num_samples = -1;
  const Variants variants(spec);
  EXPECT_EQ(variants.trials(), -1);
  EXPECT_EQ(variants.partial(1'000'002)[0], variants.partial(2)[0]);
}

TEST(Variants, AConstantGridSharesItsDraws) {
  StudySpec spec = two_grids();
  spec.constant_grid_search = true;
  spec.points_to_evaluate = {{{"a", 2}}};
  const Variants variants(spec);
  ASSERT_EQ(variants.trials(), 2 + 4);
  std::set<double> point, grid;
  for (int64_t number = 0; number < 6; ++number) {
    (number < 2 ? point : grid).insert(variants.partial(number)[2]);
  }
  EXPECT_EQ(point.size(), 1U);
  EXPECT_EQ(grid.size(), 1U);
  EXPECT_NE(point, grid);
  spec.searcher = "random_then_grid";
  EXPECT_THAT(refusal_of([&] { Variants{spec}; }), HasSubstr("it goes with searcher random"));
}

TEST(Variants, WithSearcherGridEveryFiniteParameterIsOfTheGrid) {
  StudySpec spec{.num_samples = -1,
                 .space = {{"layers", randint(1, 4)}, {"act", choice({"relu", "tanh"})}},
                 .searcher = "grid"};
  EXPECT_EQ(Variants(spec).trials(), 6);
  EXPECT_THAT(fixed(spec, 3),
              ElementsAre("layers=1 act=relu", "layers=1 act=tanh", "layers=2 act=relu"));
  spec.num_samples = 2;
  EXPECT_EQ(Variants(spec).trials(), 12) << "two rounds";
  spec.space = Space{{"lr", uniform(0, 1)}};
  const std::string refusal = refusal_of([&] { Variants{spec}; });
  EXPECT_THAT(refusal, HasSubstr("a grid over parameter \"lr\""));
  EXPECT_THAT(refusal, HasSubstr("uniform(0, 1)"));
  EXPECT_THAT(refusal, HasSubstr("give a step (quniform"));
}

TEST(Variants, AGridThatNobodyCouldCountIsRefused) {
  std::vector<Parameter> many;
  for (int i = 0; i < 6; ++i) many.push_back({"p" + std::to_string(i), randint(0, 1000)});
  EXPECT_THAT(refusal_of([&] { Variants({.space = Space(many), .searcher = "grid"}); }),
              HasSubstr("at most 2^53 combinations"));
  many.pop_back();
  EXPECT_THAT(refusal_of([&] {
                Variants({.num_samples = 1'000'000, .space = Space(many), .searcher = "grid"});
              }),
              HasSubstr("can be counted"));
}

TEST(Variants, PointsOutsideTheSpaceAreRefused) {
  const auto refusal = [](std::map<std::string, Value> point) {
    return refusal_of([&] {
      Variants({.space = {{"x", uniform(0, 1)}}, .points_to_evaluate = {point}});
    });
  };
  EXPECT_THAT(refusal({{"y", 0.5}}), HasSubstr("y"));
  EXPECT_THAT(refusal({{"x", 2}}), HasSubstr("x"));
}

TEST(GridSearch, EnumeratesByItselfWhatItIsNotGivenAndThenEnds) {
  const Space space = {{"b", choice({"x", "y"})}, {"a", quniform(0, 1, 0.5)}};
  const auto searcher = make_searcher("grid", {.space = space});
  const Point open(2, std::nan(""));
  std::vector<Point> points;
  for (int64_t number = 0;; ++number) {
    const auto suggestion = searcher->suggest(number, open);
    if (suggestion.kind == Searcher::Suggestion::kFinished) break;
    points.push_back(suggestion.point);
    searcher->suggested(number, suggestion.point, suggestion.memo);
  }
  EXPECT_THAT(
      points,
      ElementsAre(
          Point{0, 0}, Point{0, 0.5}, Point{0, 1}, Point{1, 0}, Point{1, 0.5}, Point{1, 1}));
  EXPECT_THAT(refusal_of([] {
                make_searcher("grid", {.space = {{"n", randn()}}});
              }),
              HasSubstr("parameter \"n\""));
}

}  // namespace
}  // namespace muster::tune
