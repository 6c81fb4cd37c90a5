// PED-ANOVA beside optuna 5.0.0, from tests/golden/importance/golden.json.
#include <map>

#include <gtest/gtest.h>

#include "muster/base/json.h"
#include "muster/tune/storage/optuna_schema.h"
#include "muster/tune/views/importance.h"

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

TEST(Importance, OfNothingThereIsNone) {
  EXPECT_TRUE(parameter_importance({}, Mode::kMin).empty());
  EXPECT_EQ(best_trials({}, Mode::kMin), 0u);
}

}  // namespace
}  // namespace muster::tune
