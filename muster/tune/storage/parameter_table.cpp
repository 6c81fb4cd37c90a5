#include "muster/tune/storage/parameter_table.h"

#include <cmath>
#include <map>
#include <unordered_map>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/storage/optuna_schema.h"
#include "muster/tune/storage/sqlite.h"
#include "muster/tune/storage/storage.h"
#include "muster/tune/storage/study_tables.h"

namespace muster::tune {
namespace {

/// Puts rows of trial_params into columns. Equal distributions are one, however they are written.
class TableBuilder {
 public:
  explicit TableBuilder(ParameterTable& table) : table_(table) {}

  void add(size_t trial, std::string_view name, double number, std::string_view distribution) {
    Regime& regime = regime_of(column_of(name), std::string(distribution));
    regime.trials.push_back(trial);
    regime.numbers.push_back(number);
  }

  /// A column that may stay empty.
  size_t column_of(std::string_view name) {
    const auto [found, is_new] = columns_.try_emplace(std::string(name), table_.columns.size());
    if (is_new) table_.columns.push_back({.name = found->first, .regimes = {}});
    return found->second;
  }

 private:
  using Regime = ParameterTable::Regime;

  Regime& regime_of(size_t column, const std::string& text) {
    auto& regimes = table_.columns[column].regimes;
    const auto [found, is_new] = regimes_.try_emplace(std::pair(column, text), 0);
    if (is_new) {
      const Distribution distribution = distribution_from_optuna(text, table_.columns[column].name);
      size_t& r = found->second;
      while (r < regimes.size() && regimes[r].distribution != distribution) ++r;
      if (r == regimes.size()) regimes.push_back({distribution, {}, {}});
    }
    return regimes[found->second];
  }

  ParameterTable& table_;
  std::map<std::string, size_t, std::less<>> columns_;
  std::map<std::pair<size_t, std::string>, size_t> regimes_;
};

void check_one_objective(Database& database, int64_t study_id, std::string_view study) {
  Statement count = database.prepare("SELECT COUNT(*) FROM study_directions WHERE study_id = ?");
  count.bind(1, study_id);
  if (count.step() && count.integer(0) <= 1) return;
  throw usage_error({.refused = concat("study ", study, " has ", count.integer(0), " objectives"),
                     .rule = "the importance of parameters is that for one objective",
                     .hint = "--of METRIC says for which"});
}

}  // namespace

ParameterTable read_parameter_table(const std::filesystem::path& file,
                                    std::string_view study,
                                    std::optional<size_t> objective) {
  find_study(file, study);  // refuses what is not there
  Database database(file, Database::Access::kRead);
  database.run("BEGIN");
  const auto id = find_study_id(database, study);
  if (!id) throw usage_error({.refused = concat(file.string(), " has no study ", study)});
  if (!objective) check_one_objective(database, *id, study);

  ParameterTable table;
  std::unordered_map<int64_t, size_t> places;  // by trial_id
  Statement trials = database.prepare(
      "SELECT trials.trial_id, value_type, value FROM trials JOIN trial_values USING (trial_id) "
      "WHERE study_id = ? AND state = 'COMPLETE' AND objective = ? ORDER BY number");
  trials.bind(1, *id).bind(2, static_cast<int64_t>(objective.value_or(0)));
  while (trials.step()) {
    const double value = from_value_type(trials.text(1), trials.number(2));
    if (!std::isfinite(value)) continue;
    places.emplace(trials.integer(0), table.values.size());
    table.values.push_back(value);
  }
  TableBuilder builder(table);
  Statement params = database.prepare(
      "SELECT trial_params.trial_id, param_name, param_value, distribution_json "
      "FROM trial_params JOIN trials USING (trial_id) "
      "WHERE study_id = ? AND state = 'COMPLETE' ORDER BY param_name, trial_params.trial_id");
  params.bind(1, *id);
  while (params.step()) {
    const auto place = places.find(params.integer(0));
    if (place == places.end()) {
      builder.column_of(params.text(1));
    } else {
      builder.add(place->second, params.text(1), params.number(2), params.text(3));
    }
  }
  return table;
}

}  // namespace muster::tune
