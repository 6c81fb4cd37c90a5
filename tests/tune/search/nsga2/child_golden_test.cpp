// Children of NSGA-II against those that Optuna 5.0.0 makes of the same population with the same
// draws, from tests/golden/pareto/golden.json.
#include <cmath>

#include <gmock/gmock.h>

#include "muster/base/json.h"
#include "muster/tune/search/nsga2/child.h"
#include "muster/tune/space/space.h"

#include "tests/support/golden.h"

namespace muster::tune {
namespace {

Space space_of(const Json& axes) {
  std::vector<Parameter> parameters;
  for (const Json& axis : axes)
    parameters.push_back(
        {.name = axis[0], .domain = Domain::parse(axis[1].get<std::string>(), "test")});
  return Space(std::move(parameters));
}

std::vector<Individual> population_of(const Json& one) {
  std::vector<Individual> population;
  for (size_t i = 0; i < one.at("points").size(); ++i) {
    Individual& each = population.emplace_back();
    each.point = one.at("points")[i].get<Point>();
    each.values = one.at("values")[i].get<Losses>();
    for (size_t k = 0; k < each.values.size(); ++k)
      each.losses.push_back(
          -score_of(each.values[k], parse_mode(one.at("modes")[k].get<std::string>())));
    each.violation = one.at("violations")[i];
  }
  return population;
}

TEST(Nsga2Golden, ChildrenAreOptunas) {
  const Json golden = test::read_golden("pareto");
  const Space space = space_of(golden.at("axes"));
  const auto dimensions = crossed_dimensions(space.dimensions());
  for (const Json& one : golden.at("children")) {
    const auto uniforms = one.at("uniforms").get<std::vector<double>>();
    size_t next = 0;
    const Point child =
        child_of(population_of(one), dimensions, {}, [&] { return uniforms.at(next++); });
    EXPECT_EQ(next, uniforms.size()) << "as many draws: " << one.dump();
    for (size_t d = 0; d < child.size(); ++d) {
      const Json& theirs = one.at("child")[d];
      if (theirs.is_null()) {
        EXPECT_TRUE(std::isnan(child[d])) << d << " of " << one.dump();
      } else {
        EXPECT_NEAR(child[d], theirs.get<double>(), 1e-12) << d << " of " << one.dump();
      }
    }
  }
}

TEST(Nsga2, WhatDoesNotApplyInOneParentIsTheOthers) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Individual> parents = {{.point = {0, kNan, kNan}, .values = {1}, .losses = {1}},
                                           {.point = {1, 0.5, kNan}, .values = {2}, .losses = {2}}};
  const std::vector<size_t> all = {0, 1, 2};
  const Point child = child_of(parents, all, {.crossover = 1, .mutation = 0}, [] { return 0.25; });
  EXPECT_EQ(child[1], 0.5);
  EXPECT_TRUE(std::isnan(child[2])) << "to be drawn";
}

}  // namespace
}  // namespace muster::tune
