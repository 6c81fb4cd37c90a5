// Draws and grids against those of Ray Tune and Optuna, from tests/golden/tune_space/golden.json.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tune/core/variants.h"
#include "muster/tune/space/space.h"

#include "tests/support/golden.h"

namespace muster::tune {
namespace {

const Json& space_golden() {
  static const Json json = test::read_golden("tune_space");
  return json;
}

/// What trials 0, 1, … of a study with this one parameter get.
std::vector<double> draws(const std::string& domain, int64_t count, uint64_t seed = 7) {
  const Space space({{"x", Domain::parse(domain, "test")}});
  std::vector<double> out;
  for (int64_t number = 0; number < count; ++number)
    out.push_back(space.resolve(space.draw({}, seed, number))[0].as_double());
  return out;
}

/// The two-sample statistic for samples of equal size; about (bins - 1) ± sqrt(2 (bins - 1)) if
/// both come from one distribution.
double chi_square(const std::vector<std::pair<double, double>>& counts) {
  double sum = 0;
  for (const auto& [a, b] : counts) sum += (a - b) * (a - b) / (a + b);
  return sum;
}

TEST(SpaceGolden, DiscreteDomainsHaveTheValuesAndMassesOfRayAndOptuna) {
  const int64_t n = space_golden().at("draws");
  for (const Json& one : space_golden().at("discrete")) {
    const std::string domain = one.at("domain");
    std::map<double, double> ours;
    // As the golden rounds: 0.30000000000000004 is 0.3 there.
    for (const double value : draws(domain, n)) ++ours[std::round(value * 1e12) / 1e12];
    std::vector<std::pair<double, double>> counts;
    double rare = 0, rare_of_theirs = 0;
    for (const auto& pair : one.at("counts")) {
      const double value = std::round(pair.at(0).get<double>() * 1e12) / 1e12;
      const double theirs = pair.at(1);
      const bool is_rare = theirs < 50;  // the tails of a normal distribution
      if (is_rare) {
        rare += ours[value], rare_of_theirs += theirs;
      } else {
        EXPECT_GT(ours[value], 0) << domain << ' ' << value;
        counts.emplace_back(ours[value], theirs);
      }
      ours.erase(value);
    }
    for (const auto& [value, count] : ours) rare += count;
    EXPECT_TRUE(rare + rare_of_theirs == 0 || domain.starts_with("qrandn")) << domain;
    if (rare_of_theirs > 0) counts.emplace_back(rare, rare_of_theirs);
    const auto degrees = static_cast<double>(counts.size() - 1);
    EXPECT_LT(chi_square(counts), degrees + 4 * std::sqrt(2 * degrees) + 4) << domain;
  }
}

/// The share of sorted `sample` that is at most `value`.
double share(const std::vector<double>& sample, double value) {
  const auto at = std::upper_bound(sample.begin(), sample.end(), value);
  return static_cast<double>(at - sample.begin()) / static_cast<double>(sample.size());
}

TEST(SpaceGolden, ContinuousDomainsHaveTheQuantilesOfRayAndOptuna) {
  const int64_t n = space_golden().at("draws");
  for (const Json& one : space_golden().at("continuous")) {
    auto ours = draws(one.at("domain"), n);
    std::sort(ours.begin(), ours.end());
    double distance = 0;
    double at = 0;
    for (const Json& quantile : one.at("quantiles"))
      distance = std::max(distance, std::abs(share(ours, quantile) - (at += 0.01)));
    // Kolmogorov and Smirnov's two samples of 20,000, one in a thousand: 1.95 · sqrt(2 / n).
    EXPECT_LT(distance, 1.95 * std::sqrt(2.0 / static_cast<double>(n))) << one.at("domain");
  }
}

TEST(SpaceGolden, ContinuousDomainsHaveTheirExactDistribution) {
  const std::map<std::string, std::function<double(double)>> distributions = {
      {"uniform(-2, 5)", [](double x) { return (x + 2) / 7; }},
      {"loguniform(1e-4, 1e-1)", [](double x) { return std::log(x / 1e-4) / std::log(1e3); }},
      {"randn(3, 0.5)", [](double x) { return std::erfc((3 - x) / 0.5 / std::sqrt(2)) / 2; }}};
  constexpr int64_t kDraws = 50000;
  for (const auto& [domain, cdf] : distributions) {
    auto sample = draws(domain, kDraws, 3);
    std::sort(sample.begin(), sample.end());
    double distance = 0;
    for (size_t i = 0; i < sample.size(); ++i)
      distance = std::max(distance, std::abs(cdf(sample[i]) - (double(i) + 0.5) / kDraws));
    EXPECT_LT(distance, 1.63 / std::sqrt(double(kDraws))) << domain;  // one in a hundred
  }
}

TEST(SpaceGolden, QuniformGivesItsEndsHalfTheMass) {
  std::map<double, double> counts;
  for (const double value : draws("quniform(0, 1, 0.25)", 40000)) counts[value] += 1.0 / 40000;
  EXPECT_THAT(counts,
              ::testing::ElementsAre(::testing::Pair(0, ::testing::DoubleNear(0.125, 0.006)),
                                     ::testing::Pair(0.25, ::testing::DoubleNear(0.25, 0.008)),
                                     ::testing::Pair(0.5, ::testing::DoubleNear(0.25, 0.008)),
                                     ::testing::Pair(0.75, ::testing::DoubleNear(0.25, 0.008)),
                                     ::testing::Pair(1, ::testing::DoubleNear(0.125, 0.006))));
}

TEST(SpaceGolden, TheGridHasRaysOrder) {
  for (const Json& one : space_golden().at("grids")) {
    std::vector<Parameter> parameters;
    const Json& grids = one.at("space");
    for (const auto& [name, values] : grids.items()) {
      std::vector<Value> choices;
      for (const Json& value : values) choices.push_back(value_from(value, name));
      parameters.push_back({.name = name, .domain = grid_search(std::move(choices))});
    }
    StudySpec spec{.num_samples = one.at("num_samples"), .space = Space(std::move(parameters))};
    const Variants variants(spec);
    const Json& configs = one.at("configs");
    ASSERT_EQ(variants.trials(), static_cast<int64_t>(configs.size()));
    for (int64_t number = 0; number < variants.trials(); ++number) {
      const Json ours = to_json(spec.space, spec.space.resolve(variants.partial(number)));
      // Keys may come in another order.
      EXPECT_EQ(nlohmann::json::parse(ours.dump()),
                nlohmann::json::parse(configs.at(static_cast<size_t>(number)).dump()))
          << number;
    }
  }
}

}  // namespace
}  // namespace muster::tune
