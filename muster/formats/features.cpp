#include "muster/formats/features.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::formats {
namespace {

constexpr const char* kFeature = "a feature of the run";

std::optional<double> finite_number(const std::string& text) {
  const std::optional<double> number = to_double(trim(text));
  return number && std::isfinite(*number) ? number : std::nullopt;
}

bool has_number(const Table& table, size_t column) {
  return std::ranges::any_of(table.rows, [column](const TableRow& row) {
    return finite_number(row.fields[column]).has_value();
  });
}

bool names_it(const std::vector<std::string>& names, const std::string& column) {
  return std::ranges::find(names, column) != names.end();
}

struct Moments {
  double mean = 0, deviation = 1;
};

/// In two passes, so that large numbers lose nothing.
Moments moments_of(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  if (values.empty()) return {};
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  const double mean = sum / count;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double deviation = std::sqrt(squares / count);
  return {mean, deviation > 0 ? deviation : 1};
}

}  // namespace

std::vector<Feature> features_of(const Table& table, const FeatureNames& names) {
  column_named(table, names.target, "parameter \"target\"");
  for (const std::string& name : names.drop) column_named(table, name, "parameter \"drop\"");
  for (const std::string& name : names.categorical)
    column_named(table, name, "parameter \"categorical\"");
  std::vector<Feature> features;
  for (size_t at = 0; at < table.columns.size(); ++at) {
    const std::string& column = table.columns[at];
    if (column == names.target || names_it(names.drop, column)) continue;
    column_named(table, column, kFeature);  // once
    if (!names_it(names.categorical, column) && !has_number(table, at)) {
      throw usage_error(
          {.refused = concat("column \"", column, "\" of ", table.name),
           .rule = "features are numbers, or categories where that is said",
           .value = table.rows.empty()
                        ? "no row"
                        : concat('"', table.rows.front().fields[at].substr(0, 60), "\", …"),
           .hint = concat("categorical=",
                          column,
                          " gives each of its values a number, drop=",
                          column,
                          " leaves it away")});
    }
    features.push_back({.column = column});
    if (names_it(names.categorical, column)) features.back().categories = {""};  // learned later
  }
  if (!features.empty()) return features;
  throw usage_error({.refused = concat("table ", table.name),
                     .rule = "it has a column besides the target",
                     .value = join(table.columns, ", ")});
}

void move_bad_numbers(Table& table, const std::vector<Feature>& features) {
  std::vector<std::pair<size_t, const Feature*>> numbers;
  for (const Feature& feature : features)
    if (feature.categories.empty())
      numbers.emplace_back(column_named(table, feature.column, kFeature), &feature);
  std::erase_if(table.rows, [&](const TableRow& row) {
    for (const auto& [column, feature] : numbers) {
      const std::string& text = row.fields[column];
      if (finite_number(text)) continue;
      table.bad.push_back(
          {concat(table.name, ':', row.line),
           concat("its \"",
                  feature->column,
                  trim(text).empty() ? "\" is empty" : concat("\" is no number: \"", text, '"'))});
      return true;
    }
    return false;
  });
}

void learn_features(const Table& table,
                    std::span<const int64_t> rows,
                    std::vector<Feature>& features) {
  for (Feature& feature : features) {
    const size_t column = column_named(table, feature.column, kFeature);
    const auto text = [&](int64_t row) -> const std::string& {
      return table.rows[static_cast<size_t>(row)].fields[column];
    };
    if (!feature.categories.empty()) {
      std::set<std::string> seen;
      for (const int64_t row : rows) seen.insert(text(row));
      feature.categories.assign(seen.begin(), seen.end());
      continue;
    }
    std::vector<double> values;
    for (const int64_t row : rows) values.push_back(finite_number(text(row)).value_or(0));
    const Moments moments = moments_of(values);
    feature.mean = moments.mean;
    feature.deviation = moments.deviation;
  }
}

std::vector<float> feature_values(const Table& table, const std::vector<Feature>& features) {
  std::vector<size_t> columns;
  for (const Feature& feature : features)
    columns.push_back(column_named(table, feature.column, kFeature));
  std::vector<float> values;
  for (const TableRow& row : table.rows) {
    for (size_t at = 0; at < features.size(); ++at) {
      const Feature& feature = features[at];
      const std::string& text = row.fields[columns[at]];
      if (feature.categories.empty()) {
        const double number = finite_number(text).value_or(0);
        values.push_back(static_cast<float>((number - feature.mean) / feature.deviation));
      }
      for (const std::string& category : feature.categories)
        values.push_back(category == text ? 1.0F : 0.0F);
    }
  }
  return values;
}

}  // namespace muster::formats
