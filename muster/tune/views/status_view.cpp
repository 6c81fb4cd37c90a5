// The table of a running study, as Ray Tune's CLIReporter (ray 2.60) lays it out.
#include "muster/tune/views/status_view.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "muster/base/local_time.h"
#include "muster/base/text.h"
#include "muster/base/text_table.h"
#include "muster/tune/views/study_view.h"

namespace muster::tune {
namespace {

using Rows = std::vector<const Trial*>;

// The order of the table; the kinds of ends share a word.
constexpr std::array<std::string_view, 5> kStates = {
    "RUNNING", "PAUSED", "PENDING", "TERMINATED", "ERROR"};
constexpr size_t kTerminated = 3, kError = 4;
constexpr size_t kInferredMetrics = 4;
constexpr size_t kBestLines = 3;  // in a low window

size_t state_index(TrialState state) {
  switch (state) {
    case TrialState::kRunning:
      return 0;
    case TrialState::kPaused:
      return 1;
    case TrialState::kPending:
      return 2;
    case TrialState::kFailed:
      return kError;
    default:
      return kTerminated;
  }
}

using ByState = std::array<Rows, kStates.size()>;

ByState by_state(std::span<const Trial> trials) {
  ByState out;
  for (const Trial& trial : trials) out[state_index(trial.state)].push_back(&trial);
  return out;
}

double result_of(const Trial& trial) { return trial.last_metric; }

/// The best first; trials without a number last.
void sort_by_metric(Rows& rows, Mode mode) {
  std::ranges::stable_sort(rows, [mode](const Trial* a, const Trial* b) {
    const double x = score_of(result_of(*a), mode), y = score_of(result_of(*b), mode);
    return std::isnan(y) ? !std::isnan(x) : x > y;
  });
}

/// How many rows each state gets: one in turn while there are rows, as Ray shares them.
std::array<size_t, kStates.size()> fair_shares(const ByState& states, size_t rows) {
  std::array<size_t, kStates.size()> shares{};
  for (bool any = true; any && rows > 0;) {
    any = false;
    for (size_t s = 0; s < kStates.size() && rows > 0; ++s) {
      if (shares[s] < states[s].size()) ++shares[s], --rows, any = true;
    }
  }
  return shares;
}

struct Chosen {
  Rows rows;
  std::string not_shown;  ///< "... 4 more trials not shown (3 RUNNING, 1 TERMINATED)\n", or empty
};

Chosen choose(ByState states, const StatusOptions& options, Mode mode) {
  if (options.sort_by_metric) sort_by_metric(states[kTerminated], mode);
  const auto shares = fair_shares(states, options.max_rows);
  Chosen out;
  size_t hidden = 0;
  std::vector<std::string> words;
  for (size_t s = 0; s < kStates.size(); ++s) {
    const Rows& all = states[s];
    const size_t more = all.size() - shares[s];
    // Of those that are over, the newest say most, unless the best are asked for.
    const bool newest = s >= kTerminated && !(s == kTerminated && options.sort_by_metric);
    const auto first = all.begin() + static_cast<ptrdiff_t>(newest ? more : 0);
    out.rows.insert(out.rows.end(), first, first + static_cast<ptrdiff_t>(shares[s]));
    if (more > 0) words.push_back(concat(more, ' ', kStates[s]));
    hidden += more;
  }
  if (hidden > 0)
    out.not_shown = concat("... ", hidden, " more trials not shown (", join(words, ", "), ")");
  return out;
}

/// fold(), of which no more than so many lines are shown.
std::string folded_within(const std::string& text, size_t width, size_t lines) {
  constexpr size_t kMore = 2;  // " …"
  const std::string out = fold(text, width - std::min(width - 1, kMore));
  size_t end = 0;
  for (; lines > 0 && end < out.size(); --lines) end = out.find('\n', end) + 1;
  return end == out.size() ? out : concat(std::string_view(out).substr(0, end - 1), " …\n");
}

// ---- Columns ----

Cell cell_of(const Value& value) {
  if (value.is_int()) return value.as_int();
  if (value.is_double()) return value.as_double();
  if (value.is_none()) return {};
  return value_text(value);
}

Column name_column(const StudyView& view, const Rows& rows) {
  Column column{.header = "Trial name"};
  for (const Trial* trial : rows) column.cells.push_back(trial_name(view, trial->number));
  return column;
}

Column location_column(const StatusFacts& facts, const Rows& rows) {
  Column column{.header = "loc", .optional = true};
  for (const Trial* trial : rows) {
    const auto at =
        std::ranges::find(facts.locations, trial->number, &std::pair<int64_t, std::string>::first);
    column.cells.push_back(at == facts.locations.end() ? "" : at->second);
  }
  return column;
}

/// One column per parameter, sorted by name as Ray sorts them.
void add_parameters(const StudyView& view, const Rows& rows, std::vector<Column>& columns) {
  std::vector<size_t> order(view.parameters.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](size_t i) { return view.parameters[i]; });
  for (size_t i : order) {
    Column column{.header = view.parameters[i]};
    for (const Trial* trial : rows)
      column.cells.push_back(i < trial->values.size() ? cell_of(trial->values[i]) : Cell());
    columns.push_back(std::move(column));
  }
}

/// A metric's value of the last report, or one of the numbers that Ray's reports have by
/// themselves.
Cell metric_cell(const Trial& trial, std::string_view metric, double now_s) {
  if (trial.reports == 0) return {};
  if (const double* value = find_metric(trial.last_metrics, metric)) return *value;
  if (metric == "training_iteration") return trial.reports;
  if (metric == "time_total_s") return run_seconds(trial, now_s);
  if (metric == "step") return trial.last_t;
  return {};
}

/// Iterations and time, the steps if they are another number, then up to four metrics, the study's
/// first.
std::vector<std::pair<std::string, std::string>> inferred(const StudyView& view, const Rows& rows) {
  std::vector<std::pair<std::string, std::string>> out = {{"training_iteration", "iter"},
                                                          {"time_total_s", "total time (s)"}};
  if (std::ranges::any_of(rows, [](const Trial* trial) { return trial->last_t != trial->reports; }))
    out.insert(out.begin() + 1, {"step", "step"});
  const size_t most = out.size() + kInferredMetrics;
  if (!view.metric.empty()) out.emplace_back(view.metric, view.metric);
  for (size_t i = 1; i < view.goals.objectives.size(); ++i)
    out.emplace_back(view.goals.objectives[i].metric, view.goals.objectives[i].metric);
  for (const Trial* trial : rows) {
    for (const auto& [name, value] : trial->last_metrics) {
      const bool known =
          std::ranges::find(out, name, &std::pair<std::string, std::string>::first) != out.end();
      if (!known && out.size() < most) out.emplace_back(name, name);
    }
  }
  return out;
}

void add_metrics(const StudyView& view,
                 const Rows& rows,
                 const StatusOptions& options,
                 double now_s,
                 std::vector<Column>& columns) {
  const auto metrics =
      options.metric_columns.empty() ? inferred(view, rows) : options.metric_columns;
  for (const auto& [metric, title] : metrics) {
    Column column{.header = title.empty() ? metric : title,
                  .optional = options.metric_columns.empty() && metric == "time_total_s"};
    for (const Trial* trial : rows) column.cells.push_back(metric_cell(*trial, metric, now_s));
    const auto is_there = [](const Cell& cell) { return cell.index() != 0; };
    if (std::ranges::any_of(column.cells, is_there)) columns.push_back(std::move(column));
  }
}

/// The one of columns `from` to `to` that is missed least: of one value, else the last; `to` if
/// there is none.
size_t least_column(const std::vector<Column>& columns, size_t from, size_t to) {
  for (size_t c = to; c > from; --c) {
    const auto& cells = columns[c - 1].cells;
    if (std::ranges::all_of(cells, [&](const Cell& cell) { return cell == cells.front(); }))
      return c - 1;
  }
  return from < to ? to - 1 : to;
}

/// Removes what does not fit beside the name, and returns the headers. `metrics`: where they begin.
std::vector<std::string> leave_one_grid(std::vector<Column>& columns,
                                        size_t params,
                                        size_t metrics,
                                        size_t width) {
  std::vector<std::string> out;
  const auto grids = [&] {  // each has a rule above, below and behind its head
    const std::string text = '\n' + grid(columns, width);
    size_t rules = 0;
    for (size_t at = text.find("\n+-"); at != text.npos; at = text.find("\n+-", at + 1)) ++rules;
    return rules / 2;
  };
  while (columns.size() > 2 && grids() > 1) {
    size_t least = least_column(columns, params, metrics);
    if (least == metrics) least = columns.size() - 1;
    if (least < metrics) --metrics;
    out.push_back(columns[least].header);
    columns.erase(columns.begin() + static_cast<ptrdiff_t>(least));
  }
  return out;
}

/// One line, since the window is low: "3 columns have no room: lr, l1, …".
std::string left_out_line(const std::vector<std::string>& headers, size_t width) {
  if (headers.empty()) return "";
  const size_t n = headers.size();
  std::string line = concat(n, n == 1 ? " column has no room: " : " columns have no room: ");
  for (size_t i = 0; i < n; ++i) {
    const std::string next = concat(i == 0 ? "" : ", ", printable(headers[i]));
    constexpr size_t kMore = 3;  // ", …"
    if (columns_of(line) + columns_of(next) + (i + 1 < n ? kMore : 0) > width) {
      line += i == 0 ? "…" : ", …";
      break;
    }
    line += next;
  }
  return fold(line, width);
}

std::string trial_table(const StudyView& view,
                        const StatusFacts& facts,
                        const StatusOptions& options,
                        const Rows& rows) {
  std::vector<Column> columns = {name_column(view, rows), {.header = "status"}};
  for (const Trial* trial : rows)
    columns[1].cells.push_back(std::string(kStates[state_index(trial->state)]));
  columns.push_back(location_column(facts, rows));
  const size_t params = columns.size();
  add_parameters(view, rows, columns);
  const size_t metrics = columns.size();
  add_metrics(view, rows, options, facts.now_s, columns);
  if (!options.one_grid) return grid(std::move(columns), options.width);
  const auto left_out = leave_one_grid(columns, params, metrics, options.width);
  return grid(std::move(columns), options.width) + left_out_line(left_out, options.width);
}

/// Their number, and two lines of what the newest one failed of, which has scrolled by already.
std::string error_lines(const StudyView& view, const Rows& rows, size_t width) {
  const Trial& newest = *rows.back();
  return fold(concat("Number of errored trials: ", rows.size(), "; the newest:"), width) +
         folded_within(
             concat(trial_name(view, newest.number), ": ", printable(newest.reason)), width, 2);
}

/// Trials that failed, and those that wait to be tried again.
std::string error_table(const StudyView& view, const StatusOptions& options) {
  Rows rows;
  for (const Trial& trial : view.trials) {
    const bool again = trial.state == TrialState::kPending && trial.failure != Failure::kNone &&
                       trial.failure != Failure::kInterrupted;
    if (trial.state == TrialState::kFailed || again) rows.push_back(&trial);
  }
  if (rows.empty()) return "";
  if (options.one_grid) return error_lines(view, rows, options.width);
  std::string out = fold(concat("Number of errored trials: ", rows.size()), options.width);
  const size_t shown = std::min(rows.size(), options.max_rows);
  if (shown < rows.size()) out += fold(concat("The newest ", shown, " of them:"), options.width);
  rows.erase(rows.begin(), rows.end() - static_cast<ptrdiff_t>(shown));
  if (rows.empty()) return out;
  std::vector<Column> columns = {
      name_column(view, rows), {.header = "# attempts"}, {.header = "failure"}};
  for (const Trial* trial : rows) {
    columns[1].cells.emplace_back(int64_t{trial->attempt});
    columns[2].cells.emplace_back(std::string(name_of(trial->failure)));
  }
  out += grid(std::move(columns), options.width);
  // What went wrong and where to read more are too long for a cell and of no use if cut.
  for (const Trial* trial : rows) {
    std::string line = concat(trial_name(view, trial->number), ": ", printable(trial->reason));
    if (!view.trial_folder.empty() && !trial->asked)
      line += concat("; see ", output_folder(view, trial->number));
    out += fold(line, options.width);
  }
  return out;
}

// ---- The lines above the table ----

std::string clock_text(double time_s) { return local_time(time_s, "%Y-%m-%d %H:%M:%S"); }

std::string counts_line(const ByState& states, const StudyView& view, const StatusFacts& facts) {
  std::vector<std::string> words;
  for (size_t s = 0; s < kStates.size(); ++s)
    if (!states[s].empty()) words.push_back(concat(states[s].size(), ' ', kStates[s]));
  std::string out = concat("Number of trials: ", view.trials.size());
  if (facts.planned >= 0) out += concat('/', facts.planned);
  if (!words.empty()) out += concat(" (", join(words, ", "), ")");
  return out;
}

std::string best_line(const StudyView& view, bool in_short) {
  if (view.goals.several()) return view.front.empty() ? "" : front_text(view);
  if (view.best == nullptr) return "";
  return concat("Current best trial: ",
                trial_name(view, view.best->number),
                " with ",
                view.metric,
                '=',
                shortest(view.best_result),
                " and parameters ",
                parameters_text(view, *view.best, in_short));
}

}  // namespace

std::string status_table(const StudyView& view,
                         const StatusFacts& facts,
                         const StatusOptions& options) {
  ByState states = by_state(view.trials);
  std::string out;
  const auto line = [&](const std::string& text) {
    if (!text.empty()) out += fold(printable(text), options.width);
  };
  line("== Status ==");
  std::string time = concat("Current time: ",
                            clock_text(facts.now_s),
                            " (running for ",
                            human_duration(std::max(0.0, facts.now_s - facts.started_s)),
                            ")");
  const double left = options.final ? -1 : seconds_left(view, facts);
  if (left >= 0) time += ", about " + human_duration(left) + " left";
  line(time);
  line(view.scheduler);
  if (!facts.resources.empty()) line("Resources: " + facts.resources);
  if (!facts.storage.empty()) line("Storage: " + facts.storage);
  if (!options.one_grid) {
    line(best_line(view, false));
  } else if (view.best != nullptr || !view.front.empty()) {
    out += folded_within(printable(best_line(view, true)), options.width, kBestLines);
  }
  line(counts_line(states, view, facts));
  if (!options.final && !facts.pending_why.empty()) line("Pending: " + facts.pending_why);
  const Chosen chosen = choose(std::move(states), options, view.mode);
  if (!chosen.rows.empty()) out += trial_table(view, facts, options, chosen.rows);
  line(chosen.not_shown);
  return out + error_table(view, options);
}

std::string status_table(const StudyCore& core,
                         const StatusFacts& facts,
                         const StatusOptions& options) {
  return status_table(view_of(core), facts, options);
}

}  // namespace muster::tune
