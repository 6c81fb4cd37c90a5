#include "muster/track/metrics_log.h"

#include <cmath>

#include <errno.h>
#include <fcntl.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

namespace muster::track {
namespace {

std::string cell(const std::optional<double>& value) { return value ? shortest(*value) : ""; }

void put_number(Json& object, const char* name, const std::optional<double>& value) {
  if (value) object[name] = std::isfinite(*value) ? Json(*value) : Json();
}

/// The whole lines whose step, as `step_of` reads it, is at most `last_step`.
template <class StepOf>
std::string kept_lines(std::string_view bytes, int64_t last_step, StepOf step_of) {
  std::string kept;
  for (size_t from = 0, end; (end = bytes.find('\n', from)) != std::string_view::npos;
       from = end + 1) {
    const std::string line(bytes.substr(from, end - from));
    const std::optional<int64_t> step = step_of(line);
    if (step && *step <= last_step) kept += line + '\n';
  }
  return kept;
}

/// What an earlier run left in the file, or nothing for a run that starts anew.
std::string earlier(const std::filesystem::path& path, int64_t last_step) {
  return last_step < 0 || !std::filesystem::exists(path) ? "" : read_file(path);
}

/// The step whose checkpoint holds the row. A test is made behind the last checkpoint, so the run
/// that goes on from there makes it again.
int64_t kept_with(int64_t step, std::string_view phase) {
  return phase == "test" && step < INT64_MAX ? step + 1 : step;
}

std::optional<int64_t> step_of_csv(const std::string& line) {
  const std::vector<std::string> cells = split(line, ',');
  const auto step = to_int(cells[0]);
  if (!step) return std::nullopt;
  return kept_with(*step, cells.size() > 2 ? cells[2] : "");
}

std::optional<int64_t> step_of_json(const std::string& line) {
  if (!is_safe_json(line)) return std::nullopt;
  const Json row = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!row.is_object() || !row.contains("step") || !row["step"].is_number_integer())
    return std::nullopt;
  if (row["step"].is_number_unsigned() && row["step"].get<uint64_t>() > uint64_t{INT64_MAX})
    return std::nullopt;
  const bool has_phase = row.contains("phase") && row["phase"].is_string();
  return kept_with(row["step"].get<int64_t>(), has_phase ? row["phase"].get<std::string>() : "");
}

UniqueFd open_for_append(const std::filesystem::path& path) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (!fd)
    throw environment_error({.refused = "cannot open " + path.string(), .rule = errno_text(errno)});
  return fd;
}

}  // namespace

std::string csv_header() {
  return "step,epoch,phase,loss,accuracy,lr,samples_per_s,elapsed_s,gradient_norm,top_k_accuracy,"
         "epoch_s\n";
}

std::string to_csv_line(const MetricsRow& row) {
  return concat(row.step,
                ',',
                row.epoch,
                ',',
                row.phase,
                ',',
                cell(row.loss),
                ',',
                cell(row.accuracy),
                ',',
                cell(row.lr),
                ',',
                cell(row.samples_per_s),
                ',',
                cell(row.elapsed_s),
                ",",
                cell(row.gradient_norm),
                ",",
                cell(row.top_k_accuracy),
                ',',
                cell(row.epoch_s),
                '\n');
}

std::string to_json_line(const MetricsRow& row) {
  Json object = {{"step", row.step}, {"epoch", row.epoch}, {"phase", row.phase}};
  put_number(object, "loss", row.loss);
  put_number(object, "accuracy", row.accuracy);
  put_number(object, "lr", row.lr);
  put_number(object, "samples_per_s", row.samples_per_s);
  put_number(object, "elapsed_s", row.elapsed_s);
  put_number(object, "gradient_norm", row.gradient_norm);
  put_number(object, "top_k_accuracy", row.top_k_accuracy);
  put_number(object, "epoch_s", row.epoch_s);
  return json_text(object) + '\n';
}

std::string metrics_lines_until(std::string_view text, int64_t last_step) {
  return kept_lines(text, last_step, step_of_json);
}

MetricsLog::MetricsLog(const std::filesystem::path& folder, int64_t last_step)
    : csv_path_(folder / "metrics.csv"), json_path_(folder / "metrics.jsonl") {
  write_file_atomic(
      csv_path_, csv_header() + kept_lines(earlier(csv_path_, last_step), last_step, step_of_csv));
  write_file_atomic(json_path_, metrics_lines_until(earlier(json_path_, last_step), last_step));
  csv_ = open_for_append(csv_path_);
  json_ = open_for_append(json_path_);
}

void MetricsLog::write(const MetricsRow& row) {
  write_all(csv_.get(), to_csv_line(row), csv_path_);
  write_all(json_.get(), to_json_line(row), json_path_);
}

}  // namespace muster::track
