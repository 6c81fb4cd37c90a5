#include "muster/formats/features.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/name_list.h"
#include "muster/base/text.h"

namespace muster::formats {
namespace {

constexpr const char* kFeature = "a feature of the run";

/// As Python's float() has it, but for underscores: with a plus sign, too, and 0 for what is closer to it than any number.
std::optional<double> python_number(std::string_view text) {
  const bool has_plus = text.size() > 1 && text[0] == '+' && text[1] != '-' && text[1] != '+';
  if (has_plus) text.remove_prefix(1);
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (stop != end || text.empty() || error == std::errc::invalid_argument) return std::nullopt;
  if (error == std::errc()) return number;
  const double beyond = std::strtod(std::string(text).c_str(), nullptr);  // 0, or infinite
  return beyond;
}

/// What a model is given is float32.
bool is_too_large(double number) { return std::abs(number) > std::numeric_limits<float>::max(); }

bool has_number(const Table& table, size_t column) {
  return std::ranges::any_of(table.rows, [column](const TableRow& row) {
    return number_in(row.fields[column]).has_value();
  });
}

bool names_it(const std::vector<std::string>& names, const std::string& column) {
  return std::ranges::find(names, column) != names.end();
}

/// Why a cell has no value for the feature; empty if it has one.
std::string fault_of_cell(const Feature& feature, const std::string& text) {
  if (trim(text).empty()) return "is empty";
  if (!feature.categories.empty()) return "";
  const std::optional<double> number = number_in(text);
  if (!number) return concat("is no number: \"", text, '"');
  return is_too_large(*number) ? concat("is too large for float32: \"", text, '"') : "";
}

struct Moments {
  double mean = 0, deviation = 1;
};

/// In two passes, of which the second takes the first one's rounding back. Of a single value there is no
/// deviation, whatever sums of it round to.
///
/// Source: Chan, Golub, LeVeque, Algorithms for computing the sample variance (1983), the corrected two-pass
/// algorithm.
Moments moments_of(const std::vector<double>& values) {
  if (values.empty()) return {};
  const auto count = static_cast<double>(values.size());
  const auto [least, greatest] = std::ranges::minmax(values);
  if (least == greatest) return {least, 1};
  double sum = 0, rest = 0, squares = 0;
  for (const double value : values) sum += value;
  const double first = sum / count;
  for (const double value : values) {
    rest += value - first;
    squares += (value - first) * (value - first);
  }
  const double variance = (squares - rest * rest / count) / count;
  return {first + rest / count, variance > 0 ? std::sqrt(variance) : 1};
}

}  // namespace

std::optional<double> number_in(const std::string& text) {
  const std::optional<double> number = python_number(trim(text));
  return number && std::isfinite(*number) ? number : std::nullopt;
}

std::vector<std::string> empty_columns(const Table& table, const FeatureNames& names) {
  std::vector<std::string> empty, filled;
  if (table.rows.empty()) return empty;
  for (size_t at = 0; at < table.columns.size(); ++at) {
    const std::string& column = table.columns[at];
    if (column == names.target || names_it(names.drop, column)) continue;
    const bool is_empty = std::ranges::all_of(
        table.rows, [at](const TableRow& row) { return trim(row.fields[at]).empty(); });
    std::vector<std::string>& alike = is_empty ? empty : filled;
    if (!names_it(alike, column)) alike.push_back(column);
  }
  std::erase_if(empty, [&](const std::string& column) { return names_it(filled, column); });
  return empty;
}

std::vector<Feature> features_of(const Table& table, const FeatureNames& names) {
  column_named(table, names.target, "parameter \"target\"");
  for (const std::string& name : names.drop) column_named(table, name, "parameter \"drop\"");
  for (const std::string& name : names.categorical)
    column_named(table, name, "parameter \"categorical\"");
  std::vector<Feature> features;
  for (size_t at = 0; at < table.columns.size(); ++at) {
    const std::string& column = table.columns[at];
    if (column == names.target || names_it(names.drop, column)) continue;
    if (names_it(names.empty, column)) continue;
    column_named(table, column, kFeature);  // once
    if (!names_it(names.categorical, column) && !has_number(table, at)) {
      throw usage_error(
          {.refused = concat("column \"", column, "\" of ", table.name),
           .rule = "features are numbers, or categories where that is said",
           .value = table.rows.empty()
                        ? "no row"
                        : concat('"', table.rows.front().fields[at].substr(0, 60), "\", …"),
           .hint = concat("categorical=",
                          name_text(column),
                          " gives each of its values a number, drop=",
                          name_text(column),
                          " leaves it away")});
    }
    features.push_back({.column = column});
    if (names_it(names.categorical, column)) features.back().categories = {""};  // learned later
  }
  if (!features.empty()) return features;
  throw usage_error({.refused = concat("table ", table.name),
                     .rule = "it has a column besides the target",
                     .value = columns_text(table)});
}

void move_bad_cells(Table& table,
                    const std::vector<Feature>& features,
                    std::span<const Feature> learned) {
  struct Column {
    size_t number;
    const Feature& feature;
    const Feature* learned;
  };
  std::vector<Column> columns;
  for (const Feature& feature : features) {
    const auto same = std::ranges::find(learned, feature.column, &Feature::column);
    columns.push_back({column_named(table, feature.column, kFeature),
                       feature,
                       same == learned.end() ? nullptr : &*same});
  }
  std::erase_if(table.rows, [&](const TableRow& row) {
    for (const Column& column : columns) {
      const std::string& text = row.fields[column.number];
      const std::string fault = fault_of_cell(column.feature, text);
      if (fault.empty()) continue;
      if (column.learned != nullptr && names_it(column.learned->categories, text)) continue;
      add_bad_row(table, row.line, concat("its \"", column.feature.column, "\" ", fault));
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
    for (const int64_t row : rows) values.push_back(number_in(text(row)).value_or(0));
    const Moments moments = moments_of(values);
    feature.mean = moments.mean;
    feature.deviation = moments.deviation;
  }
}

namespace {

[[noreturn]] void refuse_scaled(const Table& table,
                                const TableRow& row,
                                const Feature& feature,
                                const std::string& text) {
  throw environment_error(
      {.refused = concat(table.name, ':', row.line, ": its \"", feature.column, '"'),
       .rule = concat("less the mean and divided by the deviation of the training split, ",
                      shortest(feature.mean),
                      " and ",
                      shortest(feature.deviation),
                      ", it is within float32"),
       .value = text});
}

}  // namespace

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
        const double number = number_in(text).value_or(0);
        const double scaled = (number - feature.mean) / feature.deviation;
        if (is_too_large(scaled)) refuse_scaled(table, row, feature, text);
        values.push_back(static_cast<float>(scaled));
      }
      for (const std::string& category : feature.categories)
        values.push_back(category == text ? 1.0F : 0.0F);
    }
  }
  return values;
}

}  // namespace muster::formats
