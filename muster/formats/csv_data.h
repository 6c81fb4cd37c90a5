// What a user says of rows of numbers with a class or a number to each, and what is in them. Torch-free.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/params.h"
#include "muster/formats/features.h"
#include "muster/formats/learned_rows.h"
#include "muster/formats/table.h"

namespace muster::formats {

struct CsvDataOptions {
  std::string path;
  std::string test;
  std::string target;
  std::string target_kind = "class";
  std::string categorical;
  std::string drop;
  std::string delimiter = "auto";
  bool header = true;
  bool quotes = true;
  std::string bad_rows = "raise";
  double test_fraction = 0.2;
  int64_t split_seed = 0;

  /// Of a regression: never guessed by what stands in the column.
  bool is_measured() const { return target_kind == "number"; }
};

inline constexpr Param kCsvDataParams[] = {
    param<&CsvDataOptions::path>("path", "a table; it may stand first, alone"),
    param<&CsvDataOptions::test>("test", "a table of the test samples; none: some are held out"),
    param<&CsvDataOptions::target>("target", "the column of the classes, or of what is predicted"),
    param<&CsvDataOptions::target_kind>("target_kind", "class; or number: a regression"),
    param<&CsvDataOptions::categorical>("categorical",
                                        "columns whose values get a number each: a, or [a,b]"),
    param<&CsvDataOptions::drop>("drop", "columns that are left away: a, or [a,b]"),
    param<&CsvDataOptions::delimiter>(
        "delimiter", "comma, tab, semicolon, pipe, or a character; auto: by the file's ending"),
    param<&CsvDataOptions::header>("header", "the first row names the columns; else 0, 1, …"),
    param<&CsvDataOptions::quotes>("quotes", "a field may stand in quotes, as RFC 4180 has it"),
    param<&CsvDataOptions::bad_rows>("bad_rows", "that are no samples: raise or skip"),
    param<&CsvDataOptions::test_fraction>("test_fraction",
                                          "held out of each class where there is no test file"),
    param<&CsvDataOptions::split_seed>("split_seed", "which ones these are"),
};

inline constexpr std::string_view kCsvDataOwner = "dataset csv";

/// The columns of "drop" and "categorical", as names_in() reads them; none where nothing is said.
std::vector<std::string> columns_in(const std::string& text);

/// `data_dir` takes the place of a path. Throws a usage error for unknown parameters, values without sense, and
/// if there is no path.
CsvDataOptions csv_data_options(const ParamValues& values, const std::filesystem::path& data_dir);

/// Throws as read_table().
Table read_csv(const CsvDataOptions& options, const std::filesystem::path& path);

/// Rows whose numbers can be read, each with the name of its class, or a target that is a number.
struct LabelledRows {
  Table table;                       ///< the others are in table.bad, in the order of the file
  std::vector<Feature> features;     ///< nothing is learned yet
  std::vector<std::string> empty;    ///< columns that are no features: empty_columns()
  std::vector<std::string> targets;  ///< of table.rows, none of them blank that was not learned so
};

/// That such columns are left away, a sentence each.
std::vector<std::string> empty_remarks(const LabelledRows& rows);

/// A measured target, as a feature: its mean and deviation.
Feature measured_target(const CsvDataOptions& options);

/// `learned`: by a run that goes on, whose blank classes and categories stay; see says_no_class() and
/// move_bad_cells(). `empty`: columns that the table of the training leaves away; nothing: it is this one. Throws as read_table() and features_of(), and a usage error
/// where options.target is empty or no column, or no row has a number in a measured one.
LabelledRows read_labelled_rows(const CsvDataOptions& options,
                                const std::filesystem::path& path,
                                const LearnedRows& learned = {},
                                const std::optional<std::vector<std::string>>& empty = {});

/// Throws a usage error where the target's values, of which `classes` are the different ones, are measured or
/// counted, and no classes: fractions, or nearly as many as there are rows.
void check_classes(const Table& table,
                   const std::string& target,
                   const std::vector<std::string>& classes);

/// How a measured target was standardised in a training: less the mean, divided by the deviation.
struct TargetScale {
  double mean = 0;
  double deviation = 1;
};

/// Of what a dataset has learned (JSON, or ""); nothing where that has no measured target. Throws as
/// parse_learned().
std::optional<TargetScale> learned_target_scale(const std::string& learned);

}  // namespace muster::formats
