#include "cli/dataset/row_info.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/counted.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/base/text_table.h"
#include "muster/formats/class_balance.h"
#include "muster/formats/csv_data.h"
#include "muster/text/corpus/labelled_texts.h"

#include "cli/dataset/info_parts.h"

namespace muster::cli {
namespace {

using formats::Feature;
using formats::LabelledRows;

/// A column of numbers; of categories there is only how many.
struct ColumnSpan {
  double least = 0, greatest = 0;

  /// A training divides by 1 where there is none.
  double deviation_of(const Feature& feature) const {
    return least == greatest ? 0 : feature.deviation;
  }
};

/// One split.
struct SurveyedRows {
  std::string name;  ///< "train", "test", or "all"
  LabelledRows rows;
  std::vector<std::pair<std::string, int64_t>> classes;  ///< with their rows
  std::vector<ColumnSpan> spans;                         ///< of rows.features
  std::vector<Feature> target;                           ///< one, of a regression
  std::vector<ColumnSpan> target_span;

  int64_t count() const { return static_cast<int64_t>(rows.table.rows.size()); }
  double imbalance() const {
    std::vector<int64_t> rows_of;
    for (const auto& [name_of, count_of] : classes) rows_of.push_back(count_of);
    return formats::class_imbalance(rows_of);
  }
  int64_t width() const {
    int64_t sum = 0;
    for (const Feature& feature : rows.features) sum += feature.width();
    return sum;
  }
};

ColumnSpan span_of(const formats::Table& table, const Feature& feature) {
  ColumnSpan span;
  if (!feature.categories.empty() || table.rows.empty()) return span;
  const size_t column = formats::column_named(table, feature.column, "column");
  span.least = span.greatest = formats::number_in(table.rows[0].fields[column]).value_or(0);
  for (const formats::TableRow& row : table.rows) {
    const double value = formats::number_in(row.fields[column]).value_or(0);
    span.least = std::min(span.least, value);
    span.greatest = std::max(span.greatest, value);
  }
  return span;
}

/// Rows of a test split whose class the training split has not are bad.
void move_unknown_classes(LabelledRows& rows, const std::vector<std::string>& known) {
  const auto numbers = text::numbers_of(known);
  std::vector<formats::TableRow> kept;
  std::vector<std::string> targets;
  for (size_t at = 0; at < rows.targets.size(); ++at) {
    if (numbers.contains(rows.targets[at])) {
      kept.push_back(std::move(rows.table.rows[at]));
      targets.push_back(std::move(rows.targets[at]));
    } else {
      formats::add_bad_row(
          rows.table, rows.table.rows[at].line, text::why_unknown(rows.targets[at], known));
    }
  }
  formats::sort_by_line(rows.table.bad);
  rows.table.rows = std::move(kept);
  rows.targets = std::move(targets);
}

void count_classes(SurveyedRows& out,
                   const formats::CsvDataOptions& options,
                   const std::vector<std::string>& known) {
  if (!known.empty()) move_unknown_classes(out.rows, known);
  const std::vector<std::string> names = known.empty() ? text::classes_of(out.rows.targets) : known;
  if (known.empty()) formats::check_classes(out.rows.table, options.target, names);
  std::map<std::string, int64_t> counts;
  for (const std::string& target : out.rows.targets) ++counts[target];
  for (const std::string& one : names) out.classes.emplace_back(one, counts[one]);
}

SurveyedRows survey_rows(std::string name,
                         const std::filesystem::path& path,
                         const formats::CsvDataOptions& options,
                         const std::vector<std::string>& known,
                         const std::optional<std::vector<std::string>>& empty = {}) {
  SurveyedRows out{.name = std::move(name),
                   .rows = formats::read_labelled_rows(options, path, {}, empty)};
  if (!options.is_measured()) count_classes(out, options, known);
  std::vector<int64_t> all(out.rows.table.rows.size());
  std::iota(all.begin(), all.end(), 0);
  if (options.is_measured()) {
    out.target = {formats::measured_target(options)};
    if (!all.empty()) formats::learn_features(out.rows.table, all, out.target);
    out.target_span = {span_of(out.rows.table, out.target[0])};
  }
  if (!all.empty()) formats::learn_features(out.rows.table, all, out.rows.features);
  for (const Feature& feature : out.rows.features)
    out.spans.push_back(span_of(out.rows.table, feature));
  return out;
}

Json span_json(const Feature& feature, const ColumnSpan& span) {
  return {{"name", feature.column},
          {"least", span.least},
          {"mean", feature.mean},
          {"greatest", span.greatest},
          {"deviation", span.deviation_of(feature)}};
}

Json split_json(const SurveyedRows& split) {
  Json classes = Json::array(), columns = Json::array(), bad = Json::array();
  for (const auto& [name, count] : split.classes)
    classes.push_back({{"name", name}, {"rows", count}});
  for (size_t at = 0; at < split.rows.features.size(); ++at) {
    const Feature& feature = split.rows.features[at];
    if (!feature.categories.empty()) {
      columns.push_back({{"name", feature.column}, {"categories", feature.categories}});
      continue;
    }
    columns.push_back(span_json(feature, split.spans[at]));
  }
  for (const formats::BadRow& row : split.rows.table.bad)
    bad.push_back({{"place", row.place}, {"fault", row.why}});
  Json target;
  if (!split.target.empty()) target = span_json(split.target[0], split.target_span[0]);
  return {{"split", split.name},
          {"path", split.rows.table.name},
          {"rows", split.count()},
          {"classes", std::move(classes)},
          {"target", std::move(target)},
          {"imbalance", split.imbalance() == 0 ? Json() : Json(split.imbalance())},
          {"columns", std::move(columns)},
          {"empty", split.rows.empty},
          {"width", split.width()},
          {"bad", std::move(bad)}};
}

/// Of columns of which some may be categories.
std::string column_grid(const char* heading,
                        const std::vector<Feature>& features,
                        const std::vector<ColumnSpan>& spans,
                        size_t width) {
  std::vector<Column> columns{
      {heading}, {"least"}, {"mean"}, {"greatest"}, {"deviation"}, {"values"}};
  bool has_categories = false;
  for (size_t at = 0; at < features.size(); ++at) {
    const Feature& feature = features[at];
    const ColumnSpan& span = spans[at];
    const double numbers[] = {span.least, feature.mean, span.greatest, span.deviation_of(feature)};
    const bool is_number = feature.categories.empty();
    columns[0].cells.emplace_back(printable(feature.column));
    for (size_t i = 0; i < std::size(numbers); ++i)
      columns[i + 1].cells.push_back(is_number ? Cell(numbers[i]) : Cell());
    columns.back().cells.push_back(
        is_number ? Cell() : Cell(static_cast<int64_t>(feature.categories.size())));
    has_categories |= !is_number;
  }
  if (!has_categories) columns.pop_back();
  return grid(std::move(columns), width);
}

void print_split(std::ostream& out, const SurveyedRows& split, const InfoOptions& shown) {
  out << split.name << ": " << counted(split.count(), "row");
  if (split.target.empty()) {
    out << " in " << split.classes.size() << (split.classes.size() == 1 ? " class" : " classes");
  }
  out << " of " << split.rows.table.name << '\n';
  if (split.target.empty()) {
    out << class_grid(split.classes, "rows", split.count(), shown.width);
  } else {
    out << column_grid("target", split.target, split.target_span, shown.width);
  }
  out << column_grid("column", split.rows.features, split.spans, shown.width);
  if (const auto& empty = split.rows.empty; !empty.empty()) {
    std::vector<std::string> names;
    for (const std::string& column : empty) names.push_back(printable(column));
    out << "empty    " << join(names, ", ") << (empty.size() == 1 ? ": it is" : ": they are")
        << " left away\n";
  }
  out << "numbers  " << split.width() << " of each row go to the model\n";
  if (split.classes.size() > 1 && split.imbalance() > 0)
    out << "balance  the largest class has " << fixed(split.imbalance(), 1)
        << " times the smallest\n";
  const auto& bad = split.rows.table.bad;
  if (bad.empty()) return;
  out << "bad      " << counted(static_cast<int64_t>(bad.size()), "row")
      << "; bad_rows=skip trains without\n";
  list_bad(out, bad, shown.show);
}

}  // namespace

void show_row_info(std::ostream& out, const InfoOptions& options) {
  const auto said = formats::csv_data_options(options.params, options.data_dir);
  std::vector<SurveyedRows> splits;
  splits.push_back(survey_rows(said.test.empty() ? "all" : "train", said.path, said, {}));
  if (!said.test.empty())
    splits.push_back(survey_rows(
        "test",
        said.test,
        said,
        said.is_measured() ? std::vector<std::string>() : text::classes_of(splits[0].rows.targets),
        splits[0].rows.empty));
  if (options.json) {
    Json json = Json::array();
    for (const SurveyedRows& split : splits) json.push_back(split_json(split));
    out << json_text({{"splits", std::move(json)}}) << '\n';
    return;
  }
  for (const SurveyedRows& split : splits) print_split(out, split, options);
}

}  // namespace muster::cli
