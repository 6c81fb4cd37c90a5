// Reads back what MetricsLog wrote.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "muster/track/metrics_row.h"

namespace muster::track {

/// Reads one such line, without its line end; see parse_metrics(). Throws a usage error that names
/// `where` and `number`.
MetricsRow parse_metrics_line(std::string_view line, std::string_view where, int64_t number);

/// Reads lines of JSON objects. A last line without its line end was cut by a kill and is dropped.
/// Every other line has a step and an epoch of at least 0 and a phase; its further members are
/// numbers, null (not a finite one, read as NaN) or, from older runs, "nan", "inf" or "-inf";
/// members of other types are passed over unless the name is one that `muster train` writes. Throws a usage
/// error that names `where` and the line. Pure; any thread.
std::vector<MetricsRow> parse_metrics(std::string_view text, std::string_view where);

/// The rows of `folder`/metrics.jsonl. Throws as parse_metrics() and read_file() do.
std::vector<MetricsRow> read_metrics(const std::filesystem::path& folder);

}  // namespace muster::track
