// fANOVA beside optuna 5.0.0, from tests/golden/fanova/golden.json: exactly of given trees, and in the
// mean over seeds where the forest is ours.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "muster/base/json.h"
#include "muster/tune/storage/optuna_schema.h"
#include "muster/tune/views/fanova.h"

#include "tests/support/golden.h"

namespace muster::tune {
namespace {

RegressionTree given_tree(const Json& tree) {
  RegressionTree out;
  for (size_t i = 0; i < tree.at("feature").size(); ++i) {
    out.nodes.push_back({.column = std::max(tree.at("feature")[i].get<int32_t>(), -1),
                         .threshold = tree.at("threshold")[i],
                         .left = tree.at("left")[i],
                         .right = tree.at("right")[i],
                         .value = tree.at("value")[i]});
  }
  return out;
}

TEST(FanovaGolden, OfGivenTreesTheVariancesAreThoseOfOptuna) {
  const Json golden = test::read_golden("fanova");
  const double tolerance = golden.at("tolerance");
  for (const auto& [name, forest] : golden.at("forests").items()) {
    SCOPED_TRACE(name);
    const auto bounds = forest.at("bounds").get<std::vector<ColumnBounds>>();
    const auto groups = forest.at("columns").get<std::vector<std::vector<size_t>>>();
    std::vector<RegressionTree> trees;
    for (const Json& given : forest.at("trees")) {
      trees.push_back(given_tree(given));
      const TreeVariances ours = tree_variances(trees.back(), bounds, groups);
      const double whole = given.at("variance");
      EXPECT_NEAR(ours.whole, whole, tolerance * whole);
      for (size_t i = 0; i < groups.size(); ++i)
        EXPECT_NEAR(ours.groups[i], given.at("marginal")[i].get<double>(), tolerance * whole) << i;
    }
    const std::vector<double> importance = forest_importance(trees, bounds, groups);
    for (size_t i = 0; i < groups.size(); ++i)
      EXPECT_NEAR(importance[i], forest.at("importance")[i].get<double>(), tolerance) << i;
  }
}

// As algorithm 2 of the paper says it, on a tree of three leaves by hand: 1 for x <= 0.5; else 2 for
// y <= 2, 4 for more, in [0, 1] x [0, 4].
TEST(Fanova, OfATreeByHand) {
  RegressionTree tree;
  tree.nodes = {{.column = 0, .threshold = 0.5, .left = 1, .right = 2},
                {.value = 1},
                {.column = 1, .threshold = 2, .left = 3, .right = 4},
                {.value = 2},
                {.value = 4}};
  const std::vector<ColumnBounds> bounds = {{0, 1}, {0, 4}};
  const std::vector<std::vector<size_t>> groups = {{0}, {1}, {0, 1}, {}};
  const TreeVariances variances = tree_variances(tree, bounds, groups);
  // The mean is 2; by x it is 1 or 3, by y 1.5 or 2.5.
  EXPECT_DOUBLE_EQ(variances.whole, 0.5 * 1 + 0.25 * 0 + 0.25 * 4);
  EXPECT_DOUBLE_EQ(variances.groups[0], 1);
  EXPECT_DOUBLE_EQ(variances.groups[1], 0.25);
  EXPECT_DOUBLE_EQ(variances.groups[2], variances.whole);
  EXPECT_EQ(variances.groups[3], 0);
}

TEST(RegressionForest, FitsItsSampleExactlyAndIsAFunctionOfTheSeed) {
  std::vector<std::vector<double>> columns(2);
  std::vector<double> values;
  for (int i = 0; i < 40; ++i) {
    columns[0].push_back(i % 8);
    columns[1].push_back(i / 8);
    values.push_back(std::sin(i) + 1000);
  }
  const auto forest = grow_forest(columns, values, {.trees = 3, .seed = 7});
  ASSERT_EQ(forest.size(), 3u);
  for (const RegressionTree& tree : forest) {
    int exact = 0;
    for (size_t row = 0; row < values.size(); ++row) {
      const RegressionTree::Node* node = tree.nodes.data();
      while (node->column >= 0) {
        const double x = columns[static_cast<size_t>(node->column)][row];
        node = &tree.nodes[static_cast<size_t>(x <= node->threshold ? node->left : node->right)];
      }
      exact += node->value == values[row] ? 1 : 0;
    }
    EXPECT_GT(exact, 15) << "a bootstrap sample has 63 % of the rows";
    EXPECT_LT(exact, 36);
  }
  const auto again = grow_forest(columns, values, {.trees = 3, .seed = 7});
  EXPECT_EQ(again[2].nodes.size(), forest[2].nodes.size());
  EXPECT_EQ(again[2].nodes[0].threshold, forest[2].nodes[0].threshold);
  EXPECT_EQ(grow_forest(columns, values, {.trees = 1, .max_depth = 0})[0].nodes.size(), 1u);
}

ParameterTable table_of_study(const Json& study) {
  ParameterTable table;
  for (const auto& [name, text] : study.at("distributions").items()) {
    ParameterTable::Regime regime{.distribution =
                                      distribution_from_optuna(text.get<std::string>())};
    for (size_t i = 0; i < study.at("trials").size(); ++i) {
      regime.trials.push_back(i);
      regime.numbers.push_back(study.at("trials")[i].at("numbers").at(name).get<double>());
    }
    table.columns.push_back({name, {std::move(regime)}});
  }
  for (const Json& trial : study.at("trials")) table.values.push_back(trial.at("value"));
  return table;
}

struct MeanAndDeviation {
  double mean = 0, deviation = 0;
};

MeanAndDeviation over_seeds(const std::vector<double>& shares) {
  MeanAndDeviation out;
  for (const double share : shares) out.mean += share / static_cast<double>(shares.size());
  for (const double share : shares) out.deviation += (share - out.mean) * (share - out.mean);
  out.deviation = std::sqrt(out.deviation / static_cast<double>(shares.size() - 1));
  return out;
}

TEST(FanovaGolden, OverSeedsTheSharesAreThoseOfOptuna) {
  const Json golden = test::read_golden("fanova");
  EXPECT_EQ(golden.at("studies").size(), 5u);
  for (const auto& [name, study] : golden.at("studies").items()) {
    const ParameterTable table = table_of_study(study);
    std::map<std::string, std::vector<double>> ours;
    constexpr uint64_t kSeeds = 20;
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      for (const Importance& one : fanova_importance(table, {.seed = seed}))
        ours[one.parameter].push_back(one.share);
    }
    ASSERT_EQ(ours.size(), study.at("shares").size());
    std::vector<std::pair<double, double>> means;
    for (const auto& [parameter, theirs] : study.at("shares").items()) {
      const MeanAndDeviation a = over_seeds(ours.at(parameter));
      const MeanAndDeviation b = over_seeds(theirs.get<std::vector<double>>());
      // Four standard errors of the difference of two means.
      const double error = std::hypot(a.deviation, b.deviation) / std::sqrt(double(kSeeds));
      EXPECT_NEAR(a.mean, b.mean, 4 * error + 1e-9) << name << ", " << parameter;
      EXPECT_LT(a.deviation, 2 * b.deviation + 1e-9) << name << ", " << parameter;
      means.emplace_back(b.mean, a.mean);
    }
    std::ranges::sort(means);
    for (size_t i = 1; i < means.size(); ++i)
      EXPECT_LE(means[i - 1].second, means[i].second) << name << ": another order";
  }
}

TEST(Fanova, OfNothingThereIsNoneAndOfValuesAllAlikeEqualShares) {
  EXPECT_TRUE(fanova_importance({}).empty());
  ParameterTable table;
  table.values = {1, 1, 1};
  for (const char* name : {"a", "b"})
    table.columns.push_back(
        {name,
         {{.distribution = FloatDistribution{}, .trials = {0, 1, 2}, .numbers = {0.1, 0.2, 0.3}}}});
  table.columns.push_back(
      {"c", {{.distribution = FloatDistribution{}, .trials = {0, 1}, .numbers = {0.1, 0.2}}}});
  const auto shares = fanova_importance(table);
  ASSERT_EQ(shares.size(), 2u) << "not all trials had c";
  EXPECT_EQ(shares[0].share, 0.5);
  EXPECT_EQ(shares[1].share, 0.5);
}

}  // namespace
}  // namespace muster::tune
