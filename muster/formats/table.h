// A table in a file, with the names of its columns: what a user's own rows are read from. Torch-free.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/formats/csv_reader.h"

namespace muster::formats {

struct TableOptions {
  /// comma, tab, semicolon, pipe or space, or the character; auto: tab in files that end in .tsv or
  /// .tab, else comma.
  std::string delimiter = "auto";
  bool header = true;  ///< the first row names the columns; else they are 0, 1, …
  bool quotes = true;  ///< CsvOptions::quotes
};

struct TableRow {
  int64_t line = 0;  ///< of the file, from 1
  std::vector<std::string> fields;
};

/// Something that was to be a sample and is none.
struct BadRow {
  std::string place;  ///< "rows.csv:17:4", or a file
  std::string why;
  int64_t line = 0;  ///< of a table's file, from 1
};

struct Table {
  std::string name;  ///< of the file, for errors
  std::vector<std::string> columns;
  std::vector<TableRow> rows;  ///< each with a field for each column
  std::vector<BadRow> bad;     ///< in the order of the file
};

/// Of the table's row in that line, why it is no sample: behind those that are bad already.
void add_bad_row(Table& table, int64_t line, std::string why);

/// Table::bad in the order of the file again, where rows were found bad column by column.
void sort_by_line(std::vector<BadRow>& bad);

/// Throws a usage error if there is no such file or no such delimiter, an environment error for a file
/// without a row, and what CsvReader throws.
Table read_table(const std::filesystem::path& path, const TableOptions& options = {});
Table parse_table(std::string_view bytes,
                  const std::string& name,
                  const TableOptions& options = {});

/// The columns as errors say them, each as name_text() does: `x, ["a,b"], y`. Of many the first 20 and how many more.
std::string columns_text(const Table& table);

/// The number of the column of that name. `what` is for errors: "dataset text parameter \"target\"".
/// Throws a usage error if there is none, or more than one. `taken` are other things already: the error proposes
/// none of these columns.
size_t column_named(const Table& table,
                    const std::string& name,
                    std::string_view what,
                    std::span<const std::string> taken = {});

/// The error that a bad row is where it is not passed over.
[[noreturn]] void refuse_bad_row(const BadRow& row);

/// How data are called whose rows may be bad.
struct RowWords {
  std::string whole;      ///< "table rows.csv"
  std::string_view each;  ///< "rows"
  std::string hint = {};  ///< where none can be read
};

/// What is wrong with a row that says no class.
inline constexpr std::string_view kNoClass = "it has no class";

/// Of a cell that is empty or blank. Where that is a class among those that a run has `learned`, as
/// once it was, it stays one.
bool says_no_class(std::string_view cell, std::span<const std::string> learned);

/// Throws for the first of `bad` where bad_rows=raise, and an environment error where nothing is `kept`
/// besides them.
void apply_bad_rows(std::span<const BadRow> bad,
                    size_t kept,
                    const std::string& bad_rows,
                    const RowWords& words);

/// "3 of 40 rows in rows.csv are skipped: rows.csv:3: why, …"; nothing if none is bad.
std::vector<std::string> skipped_remark(std::span<const BadRow> bad,
                                        size_t kept,
                                        std::string_view each,
                                        const std::string& file);

/// Throws a usage error, which names `owner`, for another bad_rows than raise and skip, and a
/// test_fraction that is not between 0 and 1.
void check_row_params(std::string_view owner, const std::string& bad_rows, double test_fraction);

}  // namespace muster::formats
