#include "muster/formats/table.h"

#include <algorithm>
#include <array>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/name_list.h"
#include "muster/base/text.h"
#include "muster/formats/data_params.h"

namespace muster::formats {
namespace {

constexpr std::array<std::pair<std::string_view, char>, 5> kDelimiters{
    {{"comma", ','}, {"tab", '\t'}, {"semicolon", ';'}, {"pipe", '|'}, {"space", ' '}}};

char delimiter_of(const std::string& said, std::string_view file) {
  if (said == "auto") return file.ends_with(".tsv") || file.ends_with(".tab") ? '\t' : ',';
  for (const auto& [name, character] : kDelimiters)
    if (said == name) return character;
  if (said.size() == 1) return said[0];
  throw usage_error({.refused = "delimiter of a table",
                     .rule = "auto, comma, tab, semicolon, pipe, space, or one character",
                     .value = concat('"', said, '"')});
}

std::string counted(size_t fields) { return concat(fields, fields == 1 ? " field" : " fields"); }

std::vector<std::string> numbers(size_t count) {
  std::vector<std::string> names;
  for (size_t at = 0; at < count; ++at) names.push_back(std::to_string(at));
  return names;
}

}  // namespace

void add_bad_row(Table& table, int64_t line, std::string why) {
  table.bad.push_back({concat(table.name, ':', line), std::move(why), line});
}

void sort_by_line(std::vector<BadRow>& bad) { std::ranges::stable_sort(bad, {}, &BadRow::line); }

Table parse_table(std::string_view bytes, const std::string& name, const TableOptions& options) {
  Table table{.name = name};
  CsvReader reader(
      bytes, name, {.delimiter = delimiter_of(options.delimiter, name), .quotes = options.quotes});
  for (CsvRow row; reader.next(row);) {
    const bool is_first = table.columns.empty();
    if (!row.fault.empty()) {
      BadRow bad{
          concat(name, ':', row.fault_line, ':', row.fault_column), row.fault, row.fault_line};
      if (is_first) throw environment_error({.refused = bad.place, .rule = bad.why});
      table.bad.push_back(std::move(bad));
      continue;
    }
    if (is_first) {
      table.columns = options.header ? std::exchange(row.fields, {}) : numbers(row.fields.size());
      if (options.header) continue;
    }
    if (row.fields.size() == table.columns.size()) {
      table.rows.push_back({row.line, std::exchange(row.fields, {})});
    } else {
      add_bad_row(table,
                  row.line,
                  concat("it has ",
                         counted(row.fields.size()),
                         options.header ? ", the header " : ", the first row ",
                         table.columns.size()));
    }
  }
  if (!table.rows.empty() || !table.bad.empty()) return table;
  throw environment_error({.refused = concat("table ", name),
                           .rule = "it has a row",
                           .value = table.columns.empty() ? "an empty file" : "a header alone"});
}

Table read_table(const std::filesystem::path& path, const TableOptions& options) {
  delimiter_of(options.delimiter, path.string());  // before a long file is read
  return parse_table(read_file(path), path.string(), options);
}

namespace {

/// The nearest one that is not taken, or nothing: the rule has the whole list.
std::string column_hint(const Table& table,
                        const std::string& name,
                        std::span<const std::string> taken) {
  std::vector<std::string> others;
  for (const std::string& column : table.columns)
    if (std::ranges::find(taken, column) == taken.end()) others.push_back(column);
  return nearest(name, others) ? suggestion(name, others) : "";
}

}  // namespace

std::string columns_text(const Table& table) {
  constexpr size_t kMostShown = 20;
  const size_t shown = std::min(table.columns.size(), kMostShown);
  std::vector<std::string> names;
  for (size_t i = 0; i < shown; ++i) names.push_back(name_text(table.columns[i]));
  const size_t rest = table.columns.size() - shown;
  return join(names, ", ") + (rest > 0 ? concat(" and ", rest, " more") : "");
}

size_t column_named(const Table& table,
                    const std::string& name,
                    std::string_view what,
                    std::span<const std::string> taken) {
  const auto first = std::ranges::find(table.columns, name);
  if (first == table.columns.end()) {
    throw usage_error({.refused = std::string(what),
                       .rule = concat(table.name, " has the columns ", columns_text(table)),
                       .value = concat('"', name, '"'),
                       .hint = column_hint(table, name, taken)});
  }
  if (std::find(first + 1, table.columns.end(), name) != table.columns.end()) {
    throw usage_error({.refused = std::string(what),
                       .rule = concat(table.name, " has one column of that name"),
                       .value = concat("two are called \"", name, '"')});
  }
  return static_cast<size_t>(first - table.columns.begin());
}

void refuse_bad_row(const BadRow& row) {
  throw environment_error({.refused = row.place,
                           .rule = row.why,
                           .hint = "mend or remove it, or go on without such rows: bad_rows=skip"});
}

bool says_no_class(std::string_view cell, std::span<const std::string> learned) {
  return trim(cell).empty() && std::ranges::find(learned, cell) == learned.end();
}

void apply_bad_rows(std::span<const BadRow> bad,
                    size_t kept,
                    const std::string& bad_rows,
                    const RowWords& words) {
  if (!bad.empty() && bad_rows == "raise") refuse_bad_row(bad[0]);
  if (kept > 0) return;
  throw environment_error(
      {.refused = words.whole,
       .rule = concat("one of its ", words.each, " can be read"),
       .value = concat("none of ", bad.size(), "; the first is ", bad[0].place, ": ", bad[0].why),
       .hint = words.hint});
}

std::vector<std::string> skipped_remark(std::span<const BadRow> bad,
                                        size_t kept,
                                        std::string_view each,
                                        const std::string& file) {
  if (bad.empty()) return {};
  return {concat(bad.size(),
                 " of ",
                 bad.size() + kept,
                 ' ',
                 each,
                 " in ",
                 file,
                 " are skipped: ",
                 bad[0].place,
                 ": ",
                 bad[0].why,
                 bad.size() > 1 ? ", …" : "")};
}

void check_row_params(std::string_view owner, const std::string& bad_rows, double test_fraction) {
  if (bad_rows != "raise" && bad_rows != "skip")
    refuse_data_param(owner, "bad_rows", "raise or skip", '"' + bad_rows + '"');
  check_test_fraction(owner, test_fraction);
}

}  // namespace muster::formats
