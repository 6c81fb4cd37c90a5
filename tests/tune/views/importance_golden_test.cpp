// PED-ANOVA beside optuna 5.0.0, from tests/golden/importance/golden.json.
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tune/storage/optuna_schema.h"
#include "muster/tune/views/fanova.h"
#include "muster/tune/views/importance.h"

#include "tests/support/error_of.h"
#include "tests/support/golden.h"

namespace muster::tune {
namespace {

/// The study as read_parameter_table would have it.
ParameterTable table_of(const Json& study) {
  ParameterTable table;
  std::map<std::string, std::map<size_t, ParameterTable::Regime>> columns;
  for (const Json& trial : study.at("trials")) {
    const bool is_finite = trial.at("value").is_number();
    for (const auto& [name, cell] : trial.at("params").items()) {
      auto& regimes = columns[name];
      if (!is_finite) continue;
      const size_t index = cell[0];
      ParameterTable::Regime& regime = regimes[index];
      regime.distribution =
          distribution_from_optuna(study.at("distributions")[index].get<std::string>());
      regime.trials.push_back(table.values.size());
      regime.numbers.push_back(cell[1].get<double>());
    }
    if (is_finite) table.values.push_back(trial.at("value").get<double>());
  }
  for (auto& [name, regimes] : columns) {
    auto& column = table.columns.emplace_back(ParameterTable::Column{name, {}});
    for (auto& [index, regime] : regimes) column.regimes.push_back(std::move(regime));
  }
  return table;
}

TEST(ImportanceGolden, TheSharesAreThoseOfOptuna) {
  const Json golden = test::read_golden("importance");
  EXPECT_GT(golden.at("studies").size(), 8u);
  for (const auto& [name, study] : golden.at("studies").items()) {
    SCOPED_TRACE(name);
    const auto ours =
        parameter_importance(table_of(study), parse_mode(study.at("mode").get<std::string>()));
    ASSERT_EQ(ours.size(), study.at("importance").size());
    for (size_t i = 0; i < ours.size(); ++i) {
      const double theirs = study.at("importance").at(ours[i].parameter);
      EXPECT_NEAR(ours[i].share, theirs, 1e-10) << ours[i].parameter;
      if (i > 0) {
        EXPECT_LE(ours[i].share, ours[i - 1].share) << "most important first";
      }
    }
  }
}

// Between 2^60 and 2^60 + 3 there is no double.
TEST(Importance, OfWholeNumbersThatDoublesDoNotTellApartIsRefusedByName) {
  const auto text = [](const char* low, const char* high) {
    return concat(R"({"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": )",
                  low,
                  R"(, "high": )",
                  high,
                  "}}");
  };
  EXPECT_EQ(test::refusal_of([&] {
              distribution_from_optuna(text("1152921504606846976", "1152921504606846979"), "x");
            }),
            "x, whole numbers that Optuna's table cannot hold: it keeps doubles, of which "
            "neighbours differ by 128 there (got 1152921504606846976 to 1152921504606846979 in "
            "steps of 1)");
  const Distribution one =
      distribution_from_optuna(text("1152921504606846977", "1152921504606846977"));
  EXPECT_EQ(std::get<IntDistribution>(one).low, 1152921504606846977);
}

TEST(Importance, OfARangeAsWideAsDoublesIsANumber) {
  ParameterTable table;
  ParameterTable::Regime regime{.distribution = FloatDistribution{-1.7e308, 1.7e308}};
  for (size_t i = 0; i < 20; ++i) {
    regime.trials.push_back(i);
    regime.numbers.push_back(-1.7e308 + 1.7e307 * static_cast<double>(i));
    table.values.push_back(static_cast<double>(i));
  }
  table.columns = {{"wide", {regime}}};
  regime.distribution = FloatDistribution{0, 1};
  for (size_t i = 0; i < 20; ++i) regime.numbers[i] = i % 2 == 0 ? 0.2 : 0.7;
  table.columns.push_back({"idle", {regime}});
  for (const auto& shares : {parameter_importance(table, Mode::kMin),
                             fanova_importance(table, ForestOptions{.trees = 8})}) {
    EXPECT_EQ(shares[0].parameter, "wide");
    EXPECT_GT(shares[0].share, 0.5);
    EXPECT_NEAR(shares[0].share + shares[1].share, 1, 1e-12);
  }
}

// A power of two changes no digit of a number, nor what its variance shares.
TEST(Importance, ByVarianceIsTheSameInAnyUnit) {
  ParameterTable table;
  ParameterTable::Regime x{.distribution = FloatDistribution{0, 1}}, y = x;
  for (size_t i = 0; i < 40; ++i) {
    x.trials.push_back(i), y.trials.push_back(i);
    x.numbers.push_back(static_cast<double>(i) / 40);
    y.numbers.push_back(static_cast<double>(i * 7 % 40) / 40);
    table.values.push_back(x.numbers[i] * x.numbers[i] + 0.3 * y.numbers[i] - 0.5);
  }
  table.columns = {{"x", {x}}, {"y", {y}}};
  const ForestOptions options{.trees = 8};
  const auto wanted = fanova_importance(table, options);
  for (const int power : {1000, -1000}) {
    ParameterTable other = table;
    for (double& value : other.values) value = std::ldexp(value, power);
    const auto shares = fanova_importance(other, options);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(shares[i].parameter, wanted[i].parameter);
      EXPECT_NEAR(shares[i].share, wanted[i].share, 1e-9) << power;
    }
  }
}

TEST(Importance, OfNothingThereIsNone) {
  EXPECT_TRUE(parameter_importance({}, Mode::kMin).empty());
  EXPECT_EQ(best_trials({}, Mode::kMin), 0u);
}

}  // namespace
}  // namespace muster::tune
