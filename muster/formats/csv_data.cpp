#include "muster/formats/csv_data.h"

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/name_list.h"
#include "muster/base/text.h"
#include "muster/formats/learned.h"
#include "muster/formats/utf8.h"

namespace muster::formats {
namespace {

constexpr size_t kMostCsvClasses = 1000;

/// What is predicted is neither left away nor a feature.
void refuse_target_elsewhere(const CsvDataOptions& options,
                             std::string_view parameter,
                             const std::string& columns) {
  const std::vector<std::string> names = columns_in(columns);
  if (options.target.empty() || std::ranges::find(names, options.target) == names.end()) return;
  throw usage_error({.refused = concat(kCsvDataOwner, " parameter \"", parameter, '"'),
                     .rule = "it names other columns than \"target\"",
                     .value = options.target,
                     .hint = "the target is no feature: name it by target= alone"});
}

void refuse_dropped_categories(const CsvDataOptions& options) {
  const std::vector<std::string> dropped = columns_in(options.drop);
  for (const std::string& name : columns_in(options.categorical)) {
    if (std::ranges::find(dropped, name) == dropped.end()) continue;
    throw usage_error({.refused = concat(kCsvDataOwner, " parameter \"categorical\""),
                       .rule = "it names columns that \"drop\" does not",
                       .value = name});
  }
}

/// Throws for a name that a run cannot keep.
void check_column_names(const Table& table, const LabelledRows& rows, const std::string& target) {
  std::vector<std::string> names{target};
  for (const Feature& feature : rows.features) names.push_back(feature.column);
  for (const std::string& name : names) {
    const std::string fault = utf8_fault(name);
    if (fault.empty()) continue;
    throw usage_error(
        {.refused = concat("column \"", name, "\" of ", table.name),
         .rule = concat("its name is ", fault),
         .hint = "iconv -t utf-8 makes UTF-8 of the table, drop= leaves a column away"});
  }
}

/// Why a row is no sample by its class or its categories; empty if it is one.
std::string fault_of_row(const TableRow& row,
                         size_t target,
                         bool is_measured,
                         const std::vector<std::string>& learned_classes,
                         const std::vector<std::pair<size_t, std::string>>& categorical) {
  std::string fault;
  if (!is_measured) {
    if (says_no_class(row.fields[target], learned_classes)) return std::string(kNoClass);
    fault = class_fault(row.fields[target]);
  }
  for (const auto& [column, name] : categorical) {
    if (!fault.empty()) break;
    fault = utf8_fault(row.fields[column]);
    if (!fault.empty()) fault = concat("its \"", name, "\" is ", fault);
  }
  return fault;
}

}  // namespace

std::vector<std::string> columns_in(const std::string& text) {
  return text.empty() ? std::vector<std::string>() : names_in(text);
}

CsvDataOptions csv_data_options(const ParamValues& values, const std::filesystem::path& data_dir) {
  auto options = resolve_params<CsvDataOptions>(kCsvDataParams, values, kCsvDataOwner);
  options.target = name_in(options.target);
  check_row_params(kCsvDataOwner, options.bad_rows, options.test_fraction);
  const std::vector<std::string> kinds{"class", "number"};
  if (std::ranges::find(kinds, options.target_kind) == kinds.end()) {
    throw usage_error({.refused = concat(kCsvDataOwner, " parameter \"target_kind\""),
                       .rule = "class or number",
                       .value = options.target_kind,
                       .hint = suggestion(options.target_kind, kinds)});
  }
  refuse_target_elsewhere(options, "drop", options.drop);
  refuse_target_elsewhere(options, "categorical", options.categorical);
  refuse_dropped_categories(options);
  if (!data_dir.empty()) options.path = data_dir.string();
  if (!options.path.empty()) return options;
  throw usage_error({.refused = std::string(kCsvDataOwner),
                     .rule = "it is given a file",
                     .value = "none",
                     .hint = "name it: csv:FILE,target=COLUMN"});
}

Table read_csv(const CsvDataOptions& options, const std::filesystem::path& path) {
  return read_table(
      path, {.delimiter = options.delimiter, .header = options.header, .quotes = options.quotes});
}

Feature measured_target(const CsvDataOptions& options) { return {.column = options.target}; }

namespace {

/// Rows without a number there are bad; a column of texts is another mistake.
void keep_measured_rows(Table& table, const CsvDataOptions& options) {
  const size_t column = column_named(table, options.target, "parameter \"target\"");
  const bool has_number = std::ranges::any_of(table.rows, [column](const TableRow& row) {
    return number_in(row.fields[column]).has_value();
  });
  if (!has_number && !table.rows.empty()) {
    throw usage_error(
        {.refused = concat("column \"", options.target, "\" of ", table.name),
         .rule = "with target_kind=number it is a column of numbers",
         .value = concat('"', table.rows.front().fields[column].substr(0, 60), "\", …"),
         .hint = "leave target_kind away: its texts are classes"});
  }
  move_bad_cells(table, {measured_target(options)});
}

}  // namespace

LabelledRows read_labelled_rows(const CsvDataOptions& options,
                                const std::filesystem::path& path,
                                const LearnedRows& learned,
                                const std::optional<std::vector<std::string>>& empty) {
  if (options.target.empty()) {
    throw usage_error({.refused = concat(kCsvDataOwner, " parameter \"target\""),
                       .rule = options.is_measured() ? "it is said which column is predicted"
                                                     : "it is said which column has the classes",
                       .value = "none"});
  }
  LabelledRows out{.table = read_csv(options, path)};
  Table& table = out.table;
  FeatureNames names{.target = options.target,
                     .drop = columns_in(options.drop),
                     .categorical = columns_in(options.categorical)};
  names.empty = out.empty = empty ? *empty : empty_columns(table, names);
  out.features = features_of(table, names);
  check_column_names(table, out, options.target);
  move_bad_cells(table, out.features, learned.features);
  const bool is_measured = options.is_measured();
  if (is_measured) keep_measured_rows(table, options);
  std::vector<std::pair<size_t, std::string>> categorical;
  for (const Feature& feature : out.features)
    if (!feature.categories.empty())
      categorical.emplace_back(column_named(table, feature.column, "a feature"), feature.column);
  const size_t target = column_named(table, options.target, "parameter \"target\"");
  std::erase_if(table.rows, [&](const TableRow& row) {
    std::string why = fault_of_row(row, target, is_measured, learned.classes, categorical);
    const bool is_bad = !why.empty();
    if (is_bad) add_bad_row(table, row.line, std::move(why));
    if (!is_bad) out.targets.push_back(row.fields[target]);
    return is_bad;
  });
  sort_by_line(table.bad);
  return out;
}

std::vector<std::string> empty_remarks(const LabelledRows& rows) {
  std::vector<std::string> remarks;
  for (const std::string& column : rows.empty) {
    remarks.push_back(concat(
        "column \"", column, "\" of ", rows.table.name, " is empty in every row: it is left away"));
  }
  return remarks;
}

void check_classes(const Table& table,
                   const std::string& target,
                   const std::vector<std::string>& classes) {
  const auto refuse = [&](const char* rule, std::string value) {
    throw usage_error(
        {.refused = concat("column \"", target, "\" of ", table.name),
         .rule = rule,
         .value = std::move(value),
         .hint =
             "target_kind=number says that it is measured: muster train then predicts numbers"});
  };
  const bool are_numbers = std::ranges::all_of(
      classes, [](const std::string& name) { return to_double(name).has_value(); });
  const auto fraction = std::ranges::find_if(
      classes, [](const std::string& name) { return !to_int(name).has_value(); });
  if (are_numbers && fraction != classes.end())
    refuse("classes are texts or whole numbers", concat('"', *fraction, "\", …"));
  const bool is_many = classes.size() > kMostCsvClasses || classes.size() * 2 > table.rows.size();
  if (are_numbers && is_many && classes.size() > 2)
    refuse("each class has some rows",
           concat(classes.size(), " values in ", table.rows.size(), " rows"));
}

std::optional<TargetScale> learned_target_scale(const std::string& learned) {
  if (learned.empty()) return std::nullopt;
  return parse_learned("what the run's rows were read by",
                       learned,
                       [](const Json& json) -> std::optional<TargetScale> {
                         if (!json.contains("number")) return std::nullopt;
                         const Json& number = json.at("number");
                         return TargetScale{.mean = number.at("mean").get<double>(),
                                            .deviation = number.at("deviation").get<double>()};
                       });
}

}  // namespace muster::formats
