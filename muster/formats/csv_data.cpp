#include "muster/formats/csv_data.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/base/name_list.h"
#include "muster/base/text.h"

namespace muster::formats {
namespace {

/// "a" or "[a,b]"; none where nothing is said.
std::vector<std::string> columns_in(const std::string& text) {
  return text.empty() ? std::vector<std::string>() : names_in(text);
}

}  // namespace

CsvDataOptions csv_data_options(const ParamValues& values, const std::filesystem::path& data_dir) {
  auto options = resolve_params<CsvDataOptions>(kCsvDataParams, values, kCsvDataOwner);
  check_row_params(kCsvDataOwner, options.bad_rows, options.test_fraction);
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

LabelledRows read_labelled_rows(const CsvDataOptions& options, const std::filesystem::path& path) {
  if (options.target.empty()) {
    throw usage_error({.refused = concat(kCsvDataOwner, " parameter \"target\""),
                       .rule = "it is said which column has the classes",
                       .value = "none"});
  }
  LabelledRows out{.table = read_csv(options, path)};
  Table& table = out.table;
  out.features = features_of(table,
                             {.target = options.target,
                              .drop = columns_in(options.drop),
                              .categorical = columns_in(options.categorical)});
  move_bad_numbers(table, out.features);
  const size_t target = column_named(table, options.target, "parameter \"target\"");
  std::erase_if(table.rows, [&](const TableRow& row) {
    const bool is_empty = row.fields[target].empty();
    if (is_empty) table.bad.push_back({concat(table.name, ':', row.line), "it has no class"});
    if (!is_empty) out.targets.push_back(row.fields[target]);
    return is_empty;
  });
  return out;
}

}  // namespace muster::formats
