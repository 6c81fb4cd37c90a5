// CMA-ES step for step beside cmaes 0.13.1, from tests/golden/cma_es/golden.json.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "muster/base/json.h"
#include "muster/tune/search/cma/cma.h"
#include "muster/tune/search/normal.h"

#include "tests/support/golden.h"

namespace muster::tune {
namespace {

constexpr double kSame = 1e-10;

const Json& cma_golden() {
  static const Json json = test::read_golden("cma_es");
  return json;
}

double maybe_infinite(const Json& json) {
  if (json.is_number()) return json.get<double>();
  return json == "inf" ? std::numeric_limits<double>::infinity()
                       : -std::numeric_limits<double>::infinity();
}

CmaStart start_of(const Json& a_case) {
  CmaStart start{.mean = a_case.at("mean"),
                 .sigma = a_case.at("sigma"),
                 .axes = {},
                 .population = a_case.at("population")};
  for (const Json& axis : a_case.at("axes")) {
    start.axes.push_back({.low = maybe_infinite(axis.at("low")),
                          .high = maybe_infinite(axis.at("high")),
                          .step = axis.at("step")});
  }
  return start;
}

void expect_near(std::span<const double> ours,
                 const std::vector<double>& theirs,
                 const char* what) {
  ASSERT_EQ(ours.size(), theirs.size()) << what;
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_NEAR(ours[i], theirs[i], kSame * std::max(1.0, std::abs(theirs[i]))) << what << i;
}

void expect_like(const Cma& cma, const Json& generation) {
  expect_near(cma.mean(), generation.at("mean"), "mean");
  expect_near(std::vector{cma.sigma()}, {generation.at("sigma").get<double>()}, "sigma");
  std::vector<double> c;
  for (const Json& row : generation.at("C")) {
    for (const Json& number : row) c.push_back(number.get<double>());
  }
  expect_near(cma.covariance(), c, "C");
  expect_near(cma.stretch(), generation.at("A"), "A");
  EXPECT_EQ(cma.is_spent(), generation.at("stop").get<bool>());
}

TEST(CmaGolden, EachGenerationIsThatOfCmaes) {
  for (const auto& [name, a_case] : cma_golden().at("cases").items()) {
    SCOPED_TRACE(name);
    Cma cma(start_of(a_case));
    for (const Json& generation : a_case.at("generations")) {
      std::vector<CmaMember> members;
      for (size_t k = 0; k < generation.at("raw").size(); ++k) {
        members.push_back({generation.at("raw")[k], maybe_infinite(generation.at("value")[k])});
        expect_near(cma.tried(members.back().raw), generation.at("tried")[k], "tried");
      }
      cma.tell(std::move(members));
      SCOPED_TRACE(cma.generation());
      ASSERT_NO_FATAL_FAILURE(expect_like(cma, generation));
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(CmaGolden, ThePopulationIsThatOfCmaes) {
  for (const auto& [name, a_case] : cma_golden().at("cases").items()) {
    if (name.find("population") != std::string::npos) continue;  // one of its own
    CmaStart start = start_of(a_case);
    start.population = 0;
    EXPECT_EQ(Cma(start).population(), a_case.at("population").get<int64_t>()) << name;
  }
}

TEST(NormalGolden, TheQuantileIsScipysAlsoFarOut) {
  for (const Json& point : cma_golden().at("quantiles")) {
    const double p = point.at("p"), x = point.at("x");
    EXPECT_NEAR(inverse_normal_cdf(p), x, 1e-13 * std::max(1.0, std::abs(x))) << p;
    EXPECT_NEAR(normal_cdf(x) / point.at("p_back").get<double>(), 1, 1e-12) << p;
  }
}

}  // namespace
}  // namespace muster::tune
