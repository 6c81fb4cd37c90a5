#include "muster/track/metrics_log.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <errno.h>
#include <fcntl.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/track/metrics_reader.h"

namespace muster::track {
namespace {

constexpr std::string_view kPlaceColumns = "step,epoch,phase";
constexpr size_t kPlaces = 3;  // of these

/// What an earlier process left in the file, or nothing for a run that starts anew.
std::string earlier(const std::filesystem::path& path, int64_t last_step) {
  return last_step < 0 || !std::filesystem::exists(path) ? "" : read_file(path);
}

struct PlacedRow {
  int64_t step = 0;       ///< of the checkpoint that holds the row
  bool is_end = false;    ///< dropped at the last step itself
  bool is_train = false;  ///< of that phase
  size_t line = 0;
  std::string_view text;  ///< with its line end
};

/// Which rows at the last step are dropped.
struct Ends {
  int64_t last_step = 0;
  EndRows rows;
};

PlacedRow placed(int64_t step, std::string_view phase, const Ends& ends) {
  const bool is_train = phase == "train";
  const bool goes = (is_train && ends.rows.train) || (phase == "validate" && ends.rows.validate);
  // A test is made behind the last checkpoint, so the run that goes on from there makes it again.
  const bool is_end = phase == "test" || (goes && step == ends.last_step);
  return {
      .step = is_end && step < INT64_MAX ? step + 1 : step, .is_end = is_end, .is_train = is_train};
}

/// Reads each whole line from the `first` on (1 is the file's first) by `row_of`, which throws for a
/// line that holds no row.
template <class RowOf>
KeptRows rows_until(
    std::string_view bytes, int64_t last_step, std::string_view where, size_t first, RowOf row_of) {
  std::vector<PlacedRow> rows;
  std::vector<std::pair<size_t, std::string>> faults;
  size_t number = 0;
  for (size_t from = 0, end; (end = bytes.find('\n', from)) != std::string_view::npos;
       from = end + 1) {
    if (++number < first) continue;
    try {
      PlacedRow row = row_of(bytes.substr(from, end - from), static_cast<int64_t>(number));
      row.line = number;
      row.text = bytes.substr(from, end + 1 - from);
      rows.push_back(row);
    } catch (const Error& error) {
      faults.emplace_back(number, concat(error.text().refused, ": ", error.text().rule));
    }
  }
  KeptRows kept;
  int64_t later = INT64_MAX;  // the least step of the rows that follow
  std::vector<std::string_view> texts;
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
    if (row->step <= last_step) {
      texts.push_back(row->text);
      kept.has_train_row |= row->is_train && row->step == last_step;
    } else if (later <= last_step) {
      faults.emplace_back(row->line,
                          concat(where,
                                 ", line ",
                                 row->line,
                                 ": its step ",
                                 row->step - row->is_end,
                                 " stands before step ",
                                 later));
    } else if (row->is_end && row->step == last_step + 1) {
      kept.has_dropped_end = true;
    }
    later = std::min(later, row->step);
  }
  for (auto text = texts.rbegin(); text != texts.rend(); ++text) kept.text += *text;
  std::sort(faults.begin(), faults.end());
  for (auto& [line, fault] : faults) kept.faults.push_back(std::move(fault));
  return kept;
}

PlacedRow row_of_csv(const std::string& line,
                     size_t columns,
                     std::string_view where,
                     int64_t number,
                     const Ends& ends) {
  const auto refusal = [&](const std::string& rule) {
    return usage_error({.refused = concat(where, ", line ", number), .rule = rule});
  };
  const std::vector<std::string> cells = split(line, ',');
  if (cells.size() < kPlaces || cells.size() > kPlaces + columns)
    throw refusal("it has the header's columns");
  for (size_t i = 0; i < 2; ++i) {
    if (to_int(cells[i]).value_or(-1) < 0)
      throw refusal(concat('"', i == 0 ? "step" : "epoch", "\" is a whole number of at least 0"));
  }
  if (cells[2].empty()) throw refusal("\"phase\" is a name");
  for (size_t i = 3; i < cells.size(); ++i) {
    if (!cells[i].empty() && !to_double(cells[i]))
      throw refusal(concat("column ", i + 1, " is a number"));
  }
  return placed(*to_int(cells[0]), cells[2], ends);
}

UniqueFd open_for_append(const std::filesystem::path& path) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (!fd)
    throw environment_error({.refused = "cannot open " + path.string(), .rule = errno_text(errno)});
  return fd;
}

}  // namespace

const double* MetricsRow::find(std::string_view name) const {
  for (const auto& [own, value] : values) {
    if (own == name) return &value;
  }
  return nullptr;
}

std::string csv_header(std::span<const std::string> columns) {
  std::string line(kPlaceColumns);
  for (const std::string& column : columns) line += ',' + column;
  return line + '\n';
}

std::string to_csv_line(const MetricsRow& row, std::span<const std::string> columns) {
  std::string line = concat(row.step, ',', row.epoch, ',', row.phase);
  for (const std::string& column : columns) {
    const double* value = row.find(column);
    line += ',' + (value != nullptr ? shortest(*value) : "");
  }
  return line + '\n';
}

std::string to_json_line(const MetricsRow& row) {
  Json object = {{"step", row.step}, {"epoch", row.epoch}, {"phase", row.phase}};
  for (const auto& [name, value] : row.values)
    object[name] = std::isfinite(value) ? Json(value) : Json();
  return json_text(object) + '\n';
}

KeptRows metrics_rows_until(std::string_view text,
                            int64_t last_step,
                            std::string_view where,
                            EndRows rows) {
  const Ends ends{.last_step = last_step, .rows = rows};
  return rows_until(text, last_step, where, 1, [&](std::string_view line, int64_t number) {
    const MetricsRow record = parse_metrics_line(line, where, number);
    return placed(record.step, record.phase, ends);
  });
}

std::optional<std::vector<std::string>> csv_columns(std::string_view text) {
  const std::string header = first_line(text);
  if (!header.starts_with(kPlaceColumns)) return std::nullopt;
  std::vector<std::string> columns = split(header, ',');
  if (columns.size() < kPlaces || columns[kPlaces - 1] != "phase") return std::nullopt;
  columns.erase(columns.begin(), columns.begin() + kPlaces);
  for (const std::string& column : columns) {
    if (column.empty()) return std::nullopt;
  }
  return columns;
}

KeptRows csv_rows_until(std::string_view text,
                        int64_t last_step,
                        std::string_view where,
                        EndRows rows) {
  const Ends ends{.last_step = last_step, .rows = rows};
  // A header that was damaged counts as a row, so that it is a fault.
  const auto columns = csv_columns(text);
  const size_t most = columns ? columns->size() : std::numeric_limits<uint8_t>::max();
  const size_t first = columns ? 2 : 1;
  return rows_until(text, last_step, where, first, [&](std::string_view line, int64_t number) {
    return row_of_csv(std::string(line), most, where, number, ends);
  });
}

MetricsLog::MetricsLog(const std::filesystem::path& folder,
                       int64_t last_step,
                       std::vector<std::string> columns,
                       EndRows ends)
    : csv_path_(folder / "metrics.csv"),
      json_path_(folder / "metrics.jsonl"),
      columns_(std::move(columns)) {
  const KeptRows json =
      metrics_rows_until(earlier(json_path_, last_step), last_step, json_path_.string(), ends);
  has_dropped_end_ = json.has_dropped_end;
  has_train_row_ = json.has_train_row;
  const std::string rows = take_over_csv(last_step, ends);
  write_file_atomic(csv_path_, csv_header(columns_) + rows);
  write_file_atomic(json_path_, take_over(json_path_, json));
  csv_ = open_for_append(csv_path_);
  json_ = open_for_append(json_path_);
}

/// The rows that stay, under the columns that they have, which become those of the log. Columns that
/// are new stand behind them, and in these rows they are empty.
std::string MetricsLog::take_over_csv(int64_t last_step, EndRows ends) {
  const std::string text = earlier(csv_path_, last_step);
  if (auto before = csv_columns(text)) {
    for (const std::string& column : columns_) {
      if (std::find(before->begin(), before->end(), column) == before->end())
        before->push_back(column);
    }
    columns_ = std::move(*before);
  }
  return take_over(csv_path_, csv_rows_until(text, last_step, csv_path_.string(), ends));
}

/// A file that has damaged lines stays under another name before it is replaced.
std::string MetricsLog::take_over(const std::filesystem::path& path, const KeptRows& rows) {
  if (rows.faults.empty()) return rows.text;
  std::filesystem::path aside = path.string() + ".damaged";
  for (int number = 2; std::filesystem::exists(aside); ++number)
    aside = concat(path.string(), ".damaged-", number);
  write_file_atomic(aside, read_file(path));
  for (const std::string& fault : rows.faults)
    damage_.push_back(concat(fault, "; left out, the file as it was is ", aside.string()));
  return rows.text;
}

void MetricsLog::write(const MetricsRow& row) {
  write_all(csv_.get(), to_csv_line(row, columns_), csv_path_);
  write_all(json_.get(), to_json_line(row), json_path_);
}

}  // namespace muster::track
