// What a run measured, row by row, as metrics.csv (for people and spreadsheets) and metrics.jsonl
// (for programs).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file.h"

namespace muster::track {

/// One row. Numbers that a phase does not have stay empty in the CSV and are left out of the JSON
/// line.
struct MetricsRow {
  int64_t step = 0;   ///< finished optimizer steps of the whole run
  int64_t epoch = 0;  ///< 1 … epochs
  std::string phase;  ///< "train", "validate" or "test"
  std::optional<double> loss;
  std::optional<double> accuracy;  ///< 0 … 1
  std::optional<double> lr;
  std::optional<double> samples_per_s;  ///< over all ranks
  std::optional<double> elapsed_s;      ///< since the start of the run, breaks left out
  std::optional<double> gradient_norm;  ///< of the row's last step, before clipping
  std::optional<double> top_k_accuracy;
  std::optional<double> epoch_s;  ///< of training in this epoch so far, by this process; no
                                  ///< validation, no checkpoint
};

/// The names of the fields, in their order, between commas: "step,epoch,…,top_k_accuracy,epoch_s".
std::string csv_header();
/// With its line end; doubles read back as the same value.
std::string to_csv_line(const MetricsRow& row);
/// With its line end; NaN and infinity, which JSON has not, as null.
std::string to_json_line(const MetricsRow& row);

/// The rows of a file up to a step.
struct KeptRows {
  std::string text;                 ///< as they stand, each with its line end
  std::vector<std::string> faults;  ///< of lines that hold no row: "WHERE, line 7: why"
  bool has_dropped_test = false;    ///< a test at that very step was dropped
};

/// The rows of a metrics.jsonl whose step is at most `last_step`; those of a test at it are dropped
/// as well, for the run makes it again. A line that parse_metrics() would refuse, or whose step is
/// beyond `last_step` though a row within it follows, is a fault. A last line without its line end
/// was cut by a kill and is dropped. Never throws.
KeptRows metrics_rows_until(std::string_view text, int64_t last_step, std::string_view where);

/// The same for a metrics.csv. Its header is dropped.
KeptRows csv_rows_until(std::string_view text, int64_t last_step, std::string_view where);

/// Both files of one folder, appended to. Each row is one write, so that a kill leaves whole rows.
/// One thread.
class MetricsLog {
 public:
  /// Rows of steps after `last_step`, and of a test at it, are dropped first: a resumed run makes
  /// them again; half-written rows at the end are dropped as well. A file with lines that hold no
  /// row is kept as it was beside the new one, as NAME.damaged; see damage(). -1 starts empty.
  /// Throws an environment error.
  MetricsLog(const std::filesystem::path& folder, int64_t last_step);

  /// Lines for people about rows that an earlier process wrote and that could not be read.
  const std::vector<std::string>& damage() const { return damage_; }
  bool has_dropped_test() const { return has_dropped_test_; }

  /// Throws an environment error (a full disk, say).
  void write(const MetricsRow& row);

 private:
  std::string take_over(const std::filesystem::path& path, const KeptRows& rows);

  std::filesystem::path csv_path_;
  std::filesystem::path json_path_;
  UniqueFd csv_;
  UniqueFd json_;
  std::vector<std::string> damage_;
  bool has_dropped_test_ = false;
};

}  // namespace muster::track
