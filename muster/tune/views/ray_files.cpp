#include "muster/tune/views/ray_files.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include <fcntl.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/local_time.h"
#include "muster/base/text.h"
#include "muster/track/utf8.h"
#include "muster/tune/space/python_text.h"

namespace muster::tune {
namespace {

constexpr size_t kLongestIdentifier = 130;  // Ray's TUNE_MAX_LEN_IDENTIFIER

// Column, value as Python prints it.
using Cells = std::vector<std::pair<std::string, std::string>>;

std::string local_date(double time_s) { return local_time(time_s, "%Y-%m-%d_%H-%M-%S"); }

/// Five hexadecimal digits, the same for each export of a study. FNV-1a.
std::string study_digits(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  char text[8];
  return {text,
          static_cast<size_t>(
              std::snprintf(text, sizeof text, "%05x", static_cast<unsigned>(hash >> 44)))};
}

std::string trial_id(const TrialHistory& trial, const StudyFacts& facts) {
  const std::string digits = std::to_string(100000 + trial.number % 100000);
  const std::string number = trial.number < 100000 ? digits.substr(1) : concat(trial.number);
  // Optuna's own trials count by themselves: another experiment, for Ray.
  return concat(study_digits(facts.name + (trial.foreign ? " (optuna)" : "")), '_', number);
}

/// Ray's _clean_value: floats with four digits, other letters than a-z 0-9 _ - in a row become one
/// "_", none at the ends.
std::string clean(const Value& value) {
  if (value.is_double()) return fixed(value.as_double(), 4);
  if (value.is_none()) return "None";
  if (value.is_bool()) return value.as_bool() ? "True" : "False";
  std::string out;
  for (const char c : value_text(value)) {
    const bool good = std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
    if (good || out.empty() || out.back() != '\0') out += good ? c : '\0';
  }
  std::ranges::replace(out, '\0', '_');
  const size_t begin = std::min(out.find_first_not_of('_'), out.size());
  return out.substr(begin, out.find_last_not_of('_') + 1 - begin);
}

bool is_constant(const StudyFacts::Parameter& parameter) {
  return !parameter.domain.empty() && parameter.domain.find('(') == std::string::npos;
}

/// Ray's format_vars: sorted by path, each by the last part of its name. Of what the trial began with,
/// so that its folder stays the same when it goes on as another.
std::string format_variables(const TrialHistory& trial, const StudyFacts& facts) {
  std::vector<std::pair<std::vector<std::string>, const Value*>> variables;
  for (size_t i = 0; i < facts.parameters.size(); ++i) {
    const Value& value = values_in(trial, 0)[i];
    if (!is_constant(facts.parameters[i]) && !value.is_none())
      variables.emplace_back(split(facts.parameters[i].name, '.'), &value);
  }
  std::ranges::sort(variables, {}, [](const auto& variable) { return variable.first; });
  std::vector<std::string> parts;
  for (const auto& [path, value] : variables)
    parts.push_back(concat(clean(Value(path.back())), '=', clean(*value)));
  return join(parts, ",");
}

std::string experiment_tag(const TrialHistory& trial, const StudyFacts& facts) {
  const std::string variables = format_variables(trial, facts);
  return concat(trial.number, variables.empty() ? "" : "_", variables);
}

/// The metrics, then the columns that every trial has. A metric that is called as one of these is left
/// out: which of two a reader takes would be his chance.
Cells behind_metrics(const Metrics& metrics, Cells columns) {
  Cells cells;
  for (const auto& [name, value] : metrics) {
    const bool is_taken =
        name == "config" ||
        std::ranges::find(columns, name, &Cells::value_type::first) != columns.end();
    if (!is_taken) cells.emplace_back(name, python_number(value));
  }
  std::ranges::move(columns, std::back_inserter(cells));
  return cells;
}

/// What Ray writes of report `i`, besides the configuration. `first`: the report that its attempt
/// begins with; the one of report `i` - 1 when called, then that of `i`.
Cells cells_of(const TrialHistory& trial,
               size_t i,
               size_t& first,
               const StudyFacts& facts,
               const RayHost& host) {
  const TrialHistory::Row& row = trial.rows[i];
  const bool is_first = i == 0, is_last = i + 1 == trial.rows.size();
  if (is_first || trial.rows[i - 1].attempt != row.attempt) first = i;
  const size_t restored = i - first;  // reports of this attempt, before it
  const double before_s = first > 0 ? trial.rows[first - 1].run_s : 0;
  Cells cells;
  cells.emplace_back("step", std::to_string(row.t));
  cells.emplace_back("timestamp", std::to_string(static_cast<int64_t>(row.time_s)));
  cells.emplace_back("done", is_last && is_over(trial.state) ? "true" : "false");
  cells.emplace_back("training_iteration", std::to_string(i + 1));
  cells.emplace_back("trial_id", concat('"', trial_id(trial, facts), '"'));
  cells.emplace_back("date", concat('"', local_date(row.time_s), '"'));
  const double this_s = row.run_s - (is_first ? 0 : trial.rows[i - 1].run_s);
  cells.emplace_back("time_this_iter_s", python_number(this_s));
  cells.emplace_back("time_total_s", python_number(row.run_s));
  if (!host.hostname.empty()) {
    cells.emplace_back("pid", std::to_string(host.pid));
    cells.emplace_back("hostname", python_json(Value(host.hostname)));
    cells.emplace_back("node_ip", python_json(Value(host.node_ip)));
  }
  cells.emplace_back("time_since_restore", python_number(row.run_s - before_s));
  cells.emplace_back("iterations_since_restore", std::to_string(restored + 1));
  cells.emplace_back("experiment_tag", python_json(Value(experiment_tag(trial, facts))));
  return behind_metrics(row.metrics, std::move(cells));
}

/// A line of result.json, as Python's json.dumps writes it: NaN and Infinity are bare words.
std::string result_line(const Cells& cells, const std::string& config) {
  std::string line = "{";
  for (const auto& [name, value] : cells)
    line += concat(python_json(Value(name)), ": ", value, ", ");
  return concat(line, "\"config\": ", config, "}\n");
}

/// A JSON text as a cell of Python's csv: quotes only where they are needed, True and False.
std::string csv_cell(const std::string& json) {
  if (json == "true" || json == "false") return json == "true" ? "True" : "False";
  if (json == "NaN") return "nan";
  if (json.ends_with("Infinity")) return json[0] == '-' ? "-inf" : "inf";
  if (json[0] != '"') return json;
  const std::string text = parse_json(json, "a cell").get<std::string>();
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

std::string progress_csv_line(const std::vector<std::string>& columns, const Cells& cells) {
  std::vector<std::string> values;
  for (const std::string& column : columns) {
    const auto found = std::ranges::find(cells, column, &Cells::value_type::first);
    values.push_back(found == cells.end() ? "" : csv_cell(found->second));
  }
  return join(values, ",") + "\r\n";
}

std::string csv_header(const std::vector<std::string>& columns) {
  std::vector<std::string> cells;
  for (const std::string& column : columns) cells.push_back(csv_cell(python_json(Value(column))));
  return join(cells, ",") + "\r\n";
}

/// Adds the columns that are not there; whether there were any.
bool add_columns(std::vector<std::string>& columns, const Cells& cells) {
  const size_t before = columns.size();
  for (const auto& [name, value] : cells)
    if (std::ranges::find(columns, name) == columns.end()) columns.push_back(name);
  return columns.size() > before;
}

void write_now(const std::filesystem::path& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit(false);  // can be made again from the storage
}

void append(const std::filesystem::path& path, std::string_view bytes) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
  if (!fd) {
    throw environment_error(
        {.refused = concat("cannot open ", path.string()), .rule = errno_text(errno)});
  }
  write_all(fd.get(), bytes, path);
}

std::string config_text(const Values& values, const StudyFacts& facts, int indent) {
  return json_text(config_of(values, facts), indent);
}

/// All three files, and how far they are.
RayProgress write_trial(const std::filesystem::path& folder,
                        const TrialHistory& trial,
                        const StudyFacts& facts,
                        const RayHost& host) {
  make_writable_folder(folder, "folder of a trial");
  std::vector<Cells> rows;
  RayProgress progress_of;
  auto& [columns, first] = progress_of;
  for (size_t i = 0; i < trial.rows.size(); ++i) {
    rows.push_back(cells_of(trial, i, first, facts, host));
    add_columns(columns, rows.back());
  }
  std::string config, results, progress = rows.empty() ? "" : csv_header(columns);
  const Values* values = nullptr;  // that `config` is of
  for (size_t i = 0; i < rows.size(); ++i) {
    const Values* now = &values_in(trial, trial.rows[i].attempt);
    if (std::exchange(values, now) != now) config = config_text(*now, facts, -1);
    results += result_line(rows[i], config);
    progress += progress_csv_line(columns, rows[i]);
  }
  write_now(folder / "params.json", config_text(trial.values, facts, 2) + '\n');
  write_now(folder / "result.json", results);
  write_now(folder / "progress.csv", progress);
  return progress_of;
}

}  // namespace

std::string ray_trial_folder(const TrialHistory& trial, const StudyFacts& facts) {
  std::string name =
      concat(facts.name, '_', trial_id(trial, facts), '_', experiment_tag(trial, facts));
  name = track::to_utf8(name.substr(0, kLongestIdentifier));
  name += concat('_', local_date(trial.started_s));
  for (char& c : name)
    if (std::string_view("/()<>:\"\\|?*").find(c) != std::string_view::npos || c == '\0') c = '_';
  return name;
}

void write_ray_files(const std::filesystem::path& folder,
                     std::span<const TrialHistory> trials,
                     const StudyFacts& facts,
                     const RayHost& host) {
  for (const TrialHistory& trial : trials) {
    if (trial.attempts > 0)
      write_trial(folder / ray_trial_folder(trial, facts), trial, facts, host);
  }
}

RayFiles::RayFiles(std::filesystem::path folder, StudyFacts facts, RayHost host)
    : folder_(std::move(folder)), builder_(std::move(facts)), host_(std::move(host)) {}

void RayFiles::on_events(std::span<const Event> events) {
  std::set<int64_t> whole;  // trials whose files are written from their start
  for (const Event& event : events) {
    builder_.add(event);
    // A folder is named by the start of the first attempt.
    if (event.trial < 0 || std::holds_alternative<TrialAdded>(event.what)) continue;
    progress_.resize(builder_.trials().size());
    if (is_over(builder_.trials()[static_cast<size_t>(event.trial)].state)) {
      // Its files change no more, and nobody asks for its reports again.
      whole.erase(event.trial);
      write_whole(event.trial);
      builder_.forget_rows(event.trial);
      progress_[static_cast<size_t>(event.trial)] = {};
      continue;
    }
    // Also a trial with several reports in one go: it does not matter which is cheaper.
    const bool is_report = std::holds_alternative<Reported>(event.what);
    if (is_report && !whole.contains(event.trial)) {
      add_row(builder_.trials()[static_cast<size_t>(event.trial)]);
    } else {
      whole.insert(event.trial);
    }
  }
  for (const int64_t number : whole) write_whole(number);
}

void RayFiles::write_whole(int64_t number) {
  const TrialHistory& trial = builder_.trials()[static_cast<size_t>(number)];
  progress_[static_cast<size_t>(number)] = write_trial(
      folder_ / ray_trial_folder(trial, builder_.facts()), trial, builder_.facts(), host_);
}

void RayFiles::add_row(const TrialHistory& trial) {
  const auto& facts = builder_.facts();
  const auto folder = folder_ / ray_trial_folder(trial, facts);
  auto& progress = progress_[static_cast<size_t>(trial.number)];
  const Cells cells = cells_of(trial, trial.rows.size() - 1, progress.first, facts, host_);
  if (add_columns(progress.columns, cells)) {
    progress = write_trial(folder, trial, facts, host_);
    return;
  }
  append(folder / "result.json", result_line(cells, config_text(trial.values, facts, -1)));
  append(folder / "progress.csv", progress_csv_line(progress.columns, cells));
}

}  // namespace muster::tune
