// What the TPE searcher bears and refuses.
#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/text.h"
#include "muster/tune/search/searcher.h"
#include "muster/tune/searchers/tpe.h"

#include "tests/support/error_of.h"
#include "tests/support/numbers.h"
#include "tests/tune/searchers/asked_tpe.h"

namespace muster::tune {
namespace {

using test::kInf;
using test::kNan;
using test::refusal_of;
using ::testing::HasSubstr;

TEST(Tpe, BearsScoresThatSayNothing) {
  const Space space = {{"x", uniform(0, 1)},
                       {"one", uniform(2, 2.0000001)},
                       {"k", randint(3, 4)},
                       {"c", choice({7})}};
  for (const double score : {0.0, -kInf, kInf, kNan}) {
    const auto searcher = make_tpe(space, "tpe");
    for (const Point& point : search(space, *searcher, 80, [&](const Point&) { return score; })) {
      EXPECT_TRUE(point[0] >= 0 && point[0] < 1);
      EXPECT_EQ(point[2], 3);
      EXPECT_EQ(point[3], 0);
    }
  }
}

TEST(Tpe, BearsTheSamePointAgainAndAgain) {
  const Space space = {{"x", uniform(0, 1)}, {"k", randint(0, 3)}, {"c", choice({1, 2})}};
  const auto searcher = make_tpe(space, "tpe");
  for (int64_t number = 0; number < 300; ++number)
    searcher->told({.number = number, .point = {0.25, 1, 1}, .score = 1.0});
  for (int64_t number = 300; number < 320; ++number) {
    const Point point = searcher->suggest(number, open_point(space)).point;
    EXPECT_TRUE(std::isfinite(point[0]) && std::isfinite(point[1]) && std::isfinite(point[2]));
  }
}

TEST(Tpe, BearsManyDimensionsAndManyTrialsUnderWay) {
  std::vector<Parameter> parameters;
  for (int i = 0; i < 50; ++i)
    parameters.push_back({.name = concat("p", i),
                          .domain = i % 3 == 0   ? uniform(0, 1)
                                    : i % 3 == 1 ? lograndint(1, 10000)
                                                 : choice({1, 2, 3})});
  const Space space(std::move(parameters));
  const auto searcher = make_tpe(space, "tpe");
  search(space, *searcher, 30, [](const Point& point) { return point[0]; });
  for (int64_t number = 30; number < 3030; ++number)
    searcher->suggested(number, space.draw({}, 5, number), "");
  const Point point = searcher->suggest(4000, open_point(space)).point;
  for (const double x : point) EXPECT_TRUE(std::isfinite(x));
}

TEST(Tpe, BearsNoPriorAndNormalParameters) {
  const Space space = {{"n", randn(3, 2)}, {"q", qrandn(0, 1, 0.5)}, {"c", choice({1, 2, 3})}};
  for (const std::string spec : {"tpe:prior_weight=0", "tpe:prior_weight=3,recent=0"}) {
    const auto searcher = make_tpe(space, spec);
    const auto points = search(space, *searcher, 150, [](const Point& point) {
      return -std::abs(point[0] - 5) - std::abs(point[1] - 1) - point[2];
    });
    for (const Point& point : points) EXPECT_EQ(point[1] * 2, std::round(point[1] * 2));
    EXPECT_NEAR(points.back()[0], 5, 2) << spec;
  }
}

TEST(Tpe, ConditionsThatDependOnConditionsAreFollowed) {
  const Space space(
      std::vector<Parameter>{{.name = "z", .domain = uniform(0, 1), .when = "y > 0.5"},
                             {.name = "y", .domain = uniform(0, 1), .when = "x == 'on'"},
                             {.name = "x", .domain = choice({"on", "off"})}});
  for (const std::string spec : {"tpe", "tpe:group=true", "tpe:multivariate=false"}) {
    const auto searcher = make_tpe(space, spec);
    const auto points = search(space, *searcher, 150, [](const Point& point) {
      return std::isnan(point[0]) ? 0 : 1 - std::abs(point[0] - 0.7);
    });
    double late = 0;
    for (size_t i = 110; i < 150; ++i) late += std::abs(points[i][0] - 0.7) < 0.15;
    EXPECT_GT(late, 15) << spec;
  }
}

// ---- What it says ----

TEST(Tpe, RefusesOptionsThatMakeNoSense) {
  const Space space = {{"x", uniform(0, 1)}};
  const std::pair<std::string, std::string> cases[] = {
      {"tpe:startup=0", "startup is at least 1 (got startup=0)"},
      {"tpe:candidates=0", "candidates is 1 to 100,000 (got candidates=0)"},
      {"tpe:good_share=1", "good_share is in (0, 1) (got good_share=1)"},
      {"tpe:prior_weight=-1", "prior_weight is at least 0 (got prior_weight=-1)"},
      {"tpe:failed=maybe", "failed is worst or ignore (got failed=maybe)"},
      {"tpe:group=true,multivariate=false", "group goes with multivariate (got group=true)"}};
  for (const auto& one : cases)
    EXPECT_THAT(refusal_of([&] { make_tpe(space, one.first); }), HasSubstr(one.second));
  const Space opaque = {{"f", sample_from([](const Resolved&) { return Value(1); })}};
  EXPECT_THAT(refusal_of([&] { make_tpe(opaque, "tpe"); }), HasSubstr("C++ functions"));
}

TEST(Tpe, IsNamedByItsOptions) {
  EXPECT_EQ(tpe({}), "tpe");
  EXPECT_EQ(tpe({.startup = 20, .failed = "ignore"}), "tpe:startup=20,failed=ignore");
}

}  // namespace
}  // namespace muster::tune
