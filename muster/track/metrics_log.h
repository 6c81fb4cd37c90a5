// What a run measured, row by row, as metrics.csv (for people and spreadsheets) and metrics.jsonl
// (for programs).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file.h"
#include "muster/track/metrics_row.h"

namespace muster::track {

/// The header of a metrics.csv: "step,epoch,phase" and the columns, with its line end.
std::string csv_header(std::span<const std::string> columns);
/// A row under these columns, with its line end; doubles read back as the same value, and a number
/// that the row does not have is an empty cell. Values of other names are left out.
std::string to_csv_line(const MetricsRow& row, std::span<const std::string> columns);
/// With its line end; NaN and infinity, which JSON has not, as null.
std::string to_json_line(const MetricsRow& row);

/// Of the rows at the last step itself, the phases whose row a run had at its end alone, not because
/// it was due: it is dropped, since a run that goes on has none there.
struct EndRows {
  bool train = false;
  bool validate = false;
};

/// The rows of a file up to a step.
struct KeptRows {
  std::string text;                 ///< as they stand, each with its line end
  std::vector<std::string> faults;  ///< of lines that hold no row: "WHERE, line 7: why"
  bool has_dropped_end = false;     ///< rows at that very step were dropped
  bool has_train_row = false;       ///< one of `train` at that very step is kept
};

/// The rows of a metrics.jsonl whose step is at most `last_step`; those of a test at it are dropped
/// as well, for the run makes it again, and so are `ends`. A line that parse_metrics() would refuse,
/// or whose step is beyond `last_step` though a row within it follows, is a fault. A last line without
/// its line end was cut by a kill and is dropped. Never throws.
KeptRows metrics_rows_until(std::string_view text,
                            int64_t last_step,
                            std::string_view where,
                            EndRows ends = {});

/// The columns that a metrics.csv names behind "step,epoch,phase"; nothing for a file without such a
/// header.
std::optional<std::vector<std::string>> csv_columns(std::string_view text);

/// The rows of a metrics.csv, whose header is dropped; one that is damaged is a fault.
KeptRows csv_rows_until(std::string_view text,
                        int64_t last_step,
                        std::string_view where,
                        EndRows ends = {});

/// Both files of one folder, appended to. Each row is one write, so that a kill leaves whole rows.
/// One thread.
class MetricsLog {
 public:
  /// Rows of steps after `last_step`, of a test at it, and `ends` are dropped first: a resumed run
  /// makes them again, or has none; half-written rows at the end are dropped as well. A file with lines
  /// that hold no row is kept as it was beside the new one, as NAME.damaged; see damage(). -1 starts
  /// empty.
  /// `columns` are those of the CSV, in their order; a file that is there keeps its own, and gets
  /// those behind them that it has not. Throws an environment error.
  MetricsLog(const std::filesystem::path& folder,
             int64_t last_step,
             std::vector<std::string> columns,
             EndRows ends = {});

  /// Lines for people about rows that an earlier process wrote and that could not be read.
  const std::vector<std::string>& damage() const { return damage_; }
  bool has_dropped_end() const { return has_dropped_end_; }
  /// An earlier process wrote one of `train` at `last_step`.
  bool has_train_row() const { return has_train_row_; }

  /// Throws an environment error (a full disk, say).
  void write(const MetricsRow& row);

 private:
  std::string take_over(const std::filesystem::path& path, const KeptRows& rows);
  std::string take_over_csv(int64_t last_step, EndRows ends);

  std::filesystem::path csv_path_;
  std::filesystem::path json_path_;
  UniqueFd csv_;
  UniqueFd json_;
  std::vector<std::string> damage_;
  std::vector<std::string> columns_;
  bool has_dropped_end_ = false;
  bool has_train_row_ = false;
};

}  // namespace muster::track
