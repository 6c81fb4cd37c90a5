// Reads back what MetricsLog wrote.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::track {

/// One row of metrics.jsonl with whatever numbers it has, in the order of the file: columns of a
/// newer writer come along without being known here.
struct MetricsRecord {
  int64_t step = 0;
  int64_t epoch = 0;
  std::string phase;
  std::vector<std::pair<std::string, double>> values;  ///< NaN and infinity are values too

  /// The value of that column, or null.
  const double* find(std::string_view column) const;
};

/// Reads one such line, without its line end; see parse_metrics(). Throws a usage error that names
/// `where` and `number`.
MetricsRecord parse_metrics_line(std::string_view line, std::string_view where, int64_t number);

/// Reads lines of JSON objects. A last line without its line end was cut by a kill and is dropped.
/// Every other line has a step and an epoch of at least 0 and a phase; its further members are
/// numbers, null (not a finite one, read as NaN) or, from older runs, "nan", "inf" or "-inf";
/// members of other types are passed over unless the name is one of MetricsRow's. Throws a usage
/// error that names `where` and the line. Pure; any thread.
std::vector<MetricsRecord> parse_metrics(std::string_view text, std::string_view where);

/// The rows of `folder`/metrics.jsonl. Throws as parse_metrics() and read_file() do.
std::vector<MetricsRecord> read_metrics(const std::filesystem::path& folder);

}  // namespace muster::track
