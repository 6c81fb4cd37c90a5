#include "muster/tune/storage/study_tables.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tune/core/description.h"
#include "muster/tune/space/python_text.h"
#include "muster/tune/storage/once_more.h"
#include "muster/tune/storage/optuna_schema.h"
#include "muster/tune/storage/waiting_reader.h"

namespace muster::tune {
namespace {

/// Text of `description[key]`, or `otherwise` where it is none.
std::string text_in(const Json& description, const char* key, std::string otherwise) {
  if (!description.is_object() || !description.contains(key) || !description[key].is_string())
    return otherwise;
  return description[key];
}

/// What Optuna's Study.metric_names says, as far as it says something.
std::vector<std::string> optuna_metrics(Database& database, int64_t study_id) {
  std::vector<std::string> out;
  Statement names = database.prepare(
      "SELECT value_json FROM study_system_attributes "
      "WHERE study_id = ? AND \"key\" = 'study:metric_names'");
  names.bind(1, study_id);
  if (!names.step()) return out;
  const Json json = parse_json(names.text(0), "study:metric_names");
  if (!json.is_array()) return out;
  for (const Json& name : json) out.push_back(name.is_string() ? name.get<std::string>() : "");
  return out;
}

/// All that Optuna's tables name, the first of which is the metric.
std::vector<Objective> optuna_objectives(Database& database, int64_t study_id) {
  Statement rows = database.prepare(
      "SELECT direction FROM study_directions WHERE study_id = ? ORDER BY objective");
  rows.bind(1, study_id);
  std::vector<Objective> objectives;
  while (rows.step())
    objectives.push_back({"", rows.text(0) == "MINIMIZE" ? Mode::kMin : Mode::kMax});
  if (objectives.empty()) objectives.emplace_back();
  const std::vector<std::string> names = optuna_metrics(database, study_id);
  for (size_t i = 0; i < objectives.size(); ++i) {
    objectives[i].metric = i < names.size() ? names[i] : "";
    if (objectives[i].metric.empty())
      objectives[i].metric = objectives.size() == 1 ? "value" : concat("value_", i);
  }
  return objectives;
}

/// "constraints" is a list of older Optuna's and ours, "constraints:KEY" one number each.
void take_constraint(const Json& json, std::vector<double>& constraints) {
  for (const Json& one : json.is_array() ? json : Json::array({json})) {
    if (one.is_number()) constraints.push_back(one.get<double>());
  }
}

/// What other tables have of a trial.
class TrialDetails {
 public:
  TrialDetails(Database& database, int64_t study_id)
      : params_(database.prepare("SELECT param_name, param_value, distribution_json "
                                 "FROM trial_params WHERE trial_id = ?")),
        points_(database.prepare("SELECT step, intermediate_value_type, intermediate_value FROM "
                                 "trial_intermediate_values WHERE trial_id = ? ORDER BY step")),
        once_more_(database, study_id),
        values_(database.prepare("SELECT value_type, value FROM trial_values WHERE trial_id = ? "
                                 "ORDER BY objective")),
        constraints_(database.prepare(
            "SELECT value_json FROM trial_system_attributes WHERE trial_id = ? AND "
            "(\"key\" = 'constraints' OR \"key\" LIKE 'constraints:%') ORDER BY \"key\"")) {}

  void add_to(ForeignTrial& trial, int64_t trial_id) {
    params_.bind(1, trial_id);
    while (params_.step()) {
      trial.params.emplace(params_.text(0), value_from_optuna(params_.number(1), params_.text(2)));
      if (is_logarithmic(params_.text(2))) trial.log_params.emplace(params_.text(0));
    }
    points_.bind(1, trial_id);
    while (points_.step()) {
      trial.intermediate.emplace_back(points_.integer(0),
                                      from_value_type(points_.text(1), points_.number(2)));
    }
    if (const auto failed = once_more_.read(trial_id)) trial.again = failed->number;
    values_.bind(1, trial_id);
    while (values_.step())
      trial.values.push_back(from_value_type(values_.text(0), values_.number(1)));
    if (trial.values.size() == 1) trial.values.clear();
    constraints_.bind(1, trial_id);
    while (constraints_.step()) {
      // Python writes Infinity, which is no JSON.
      std::string text(constraints_.text(0));
      for (size_t at = 0; (at = text.find("Infinity", at)) != std::string::npos;)
        text.replace(at, std::string_view("Infinity").size(), "1e308");
      take_constraint(parse_json(text, "a trial's constraints"), trial.constraints);
    }
  }

 private:
  Statement params_, points_;
  OnceMoreReader once_more_;
  Statement values_, constraints_;
};

}  // namespace

std::optional<int64_t> find_study_id(Database& database, std::string_view name) {
  Statement study = database.prepare("SELECT study_id FROM studies WHERE study_name = ?");
  study.bind(1, name);
  if (!study.step()) return std::nullopt;
  const int64_t id = study.integer(0);
  study.reset();
  constexpr int64_t kMostStudies = int64_t{1} << (63 - kEventBits);
  if (id < 0 || id >= kMostStudies) {
    throw usage_error({.refused = concat("study ", name, " in ", database.file().string()),
                       .rule = concat("the id of a study is below ", kMostStudies),
                       .value = std::to_string(id)});
  }
  return id;
}

Event event_of(Statement& row, int64_t study_id) {
  const int64_t id = row.integer(0) - event_key(study_id, 0);
  return event_from(id, row.number(1), row.integer(2), row.text(3), row.text(4));
}

int64_t select_last_event(Database& database, int64_t study_id) {
  Statement last = database.prepare(
      "SELECT event_key FROM muster_events WHERE event_key >= ? AND event_key < ? "
      "ORDER BY event_key DESC LIMIT 1");
  last.bind(1, event_key(study_id, 0)).bind(2, event_key(study_id + 1, 0));
  return last.step() ? last.integer(0) - event_key(study_id, 0) : 0;
}

void visit_events(Database& database,
                  int64_t study_id,
                  int64_t after,
                  int64_t last,
                  const std::function<void(Event&& event)>& visit) {
  if (!has_own_tables(database)) return;
  Statement rows = database.prepare(
      "SELECT event_key, time, trial, kind, payload FROM muster_events "
      "WHERE event_key > ? AND event_key <= ? ORDER BY event_key");
  rows.bind(1, event_key(study_id, after)).bind(2, event_key(study_id, last));
  while (rows.step()) visit(event_of(rows, study_id));
}

std::vector<Event> select_events(Database& database, int64_t study_id, int64_t after) {
  std::vector<Event> events;
  visit_events(database, study_id, after, kLastEvent, [&](Event&& event) {
    events.push_back(std::move(event));
  });
  return events;
}

std::vector<Event> select_last_reports(Database& database, int64_t study_id, size_t most) {
  std::vector<Event> events;
  Statement rows = database.prepare(
      "SELECT event_key, time, trial, kind, payload FROM muster_events "
      "WHERE event_key >= ? AND event_key < ? ORDER BY event_key DESC LIMIT ?");
  rows.bind(1, event_key(study_id, 0)).bind(2, event_key(study_id + 1, 0));
  rows.bind(3, static_cast<int64_t>(most));
  while (rows.step() && rows.text(3) == "reported") events.push_back(event_of(rows, study_id));
  std::ranges::reverse(events);
  return events;
}

namespace {

/// As a rule there are none, which two counts tell at once.
bool has_foreign_trials(Database& database, int64_t study_id) {
  if (!has_own_tables(database)) return true;
  Statement counts = database.prepare(
      "SELECT (SELECT count(*) FROM trials WHERE study_id = ?1), "
      "(SELECT count(*) FROM muster_trials WHERE study_id = ?1)");
  counts.bind(1, study_id);
  return !counts.step() || counts.integer(0) != counts.integer(1);
}

}  // namespace

namespace {

constexpr std::string_view kForeignColumns =
    "SELECT t.trial_id, t.number, t.state, t.datetime_start, t.datetime_complete, "
    "v.value_type, v.value FROM trials AS t LEFT JOIN trial_values AS v "
    "ON v.trial_id = t.trial_id AND v.objective = 0 ";

constexpr std::string_view kNotOurs =
    "NOT EXISTS (SELECT 1 FROM muster_trials AS m WHERE m.trial_id = t.trial_id) ";

/// A row of kForeignColumns.
ForeignTrial foreign_trial_of(Statement& row, TrialDetails& details) {
  ForeignTrial trial;
  trial.number = row.integer(1);
  trial.state = state_of(row.text(2));
  trial.started_s = from_datetime(row.text(3));
  trial.ended_s = from_datetime(row.text(4));
  trial.value = row.is_null(5) ? std::numeric_limits<double>::quiet_NaN()
                               : from_value_type(row.text(5), row.number(6));
  details.add_to(trial, row.integer(0));
  return trial;
}

/// Of one that Muster made; not if a C++ function is part of it.
std::optional<Space> described_space(Database& database, int64_t study_id) {
  const Json description = select_description(database, study_id);
  if (!description.is_object() || !description.contains("space")) return std::nullopt;
  try {
    return Space::from_description(description["space"]);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) throw;
    return std::nullopt;
  }
}

/// What it will have, or why it will never run.
void add_waiting(const Space& space, const WaitingTrial& waiting, ForeignTrial& trial) {
  trial.in_vain = why_in_vain(waiting, space);
  if (trial.in_vain.empty()) trial.params = waiting.params;
}

}  // namespace

std::vector<ForeignTrial> select_foreign_trials(Database& database, int64_t study_id) {
  if (!has_foreign_trials(database, study_id)) return {};
  Statement rows = database.prepare(concat(kForeignColumns,
                                           "WHERE t.study_id = ? ",
                                           has_own_tables(database) ? "AND " : "",
                                           has_own_tables(database) ? kNotOurs : "",
                                           "ORDER BY t.number"));
  rows.bind(1, study_id);
  TrialDetails details(database, study_id);
  WaitingReader reader(database, study_id);
  const std::optional<Space> space = described_space(database, study_id);
  std::vector<ForeignTrial> trials;
  while (rows.step()) {
    trials.push_back(foreign_trial_of(rows, details));
    if (space && trials.back().state == TrialState::kPending)
      add_waiting(*space, reader.read(rows.integer(0), rows.integer(1)), trials.back());
  }
  return trials;
}

// ---- Trials of others ----

OpenedTrials select_opened_trials(Database& database, int64_t study_id) {
  OpenedTrials opened;
  Statement newest = database.prepare("SELECT max(trial_id) FROM trials");
  if (newest.step() && !newest.is_null(0)) opened.newest = newest.integer(0);
  Statement rows = database.prepare(
      "SELECT t.trial_id, m.number, t.datetime_start FROM trials AS t "
      "LEFT JOIN muster_trials AS m ON m.trial_id = t.trial_id "
      "WHERE t.study_id = ? AND (m.number IS NULL OR t.state = 'RUNNING') ORDER BY t.trial_id");
  rows.bind(1, study_id);
  while (rows.step()) {
    if (rows.is_null(1)) {
      opened.others.push_back(rows.integer(0));
    } else {
      opened.running.push_back({.number = rows.integer(1),
                                .trial_id = rows.integer(0),
                                .started_s = from_datetime(rows.text(2))});
    }
  }
  return opened;
}

OtherTrials::OtherTrials(Database& database, int64_t study_id, const OpenedTrials& opened)
    : study_id_(study_id),
      database_(database),
      newest_(database.prepare("SELECT max(trial_id) FROM trials")),
      new_rows_(database.prepare(concat("SELECT t.trial_id FROM trials AS t WHERE t.trial_id > ? "
                                        "AND t.study_id = ? AND ",
                                        kNotOurs,
                                        "ORDER BY t.trial_id"))),
      row_(database.prepare(
          concat("SELECT t.number, t.state FROM trials AS t WHERE t.trial_id = ? AND ", kNotOurs))),
      reader_(database, study_id),
      seen_(opened.newest),
      open_(opened.others.begin(), opened.others.end()) {
  look_at_open();
}

void OtherTrials::refresh() {
  find_new();
  look_at_open();
}

void OtherTrials::look_at_open() {
  std::erase_if(open_, [&](int64_t trial_id) { return !look_at(trial_id); });
}

/// The newest first: what another process adds between the two is looked at again the next time.
void OtherTrials::find_new() {
  const int64_t newest = newest_.step() && !newest_.is_null(0) ? newest_.integer(0) : -1;
  newest_.reset();
  new_rows_.bind(1, seen_).bind(2, study_id_);
  while (new_rows_.step()) open_.insert(new_rows_.integer(0));
  seen_ = std::max(seen_, newest);
}

/// False: it needs no further look, being over, or ours by now, or gone.
bool OtherTrials::look_at(int64_t trial_id) {
  row_.bind(1, trial_id);
  const bool is_there = row_.step();
  const int64_t number = is_there ? row_.integer(0) : 0;
  const std::string state = is_there ? std::string(row_.text(1)) : "";
  row_.reset();
  if (state == "WAITING") {
    take_waiting(trial_id, number);
    return true;
  }
  waiting_.erase(trial_id);
  if (state == "RUNNING") return true;
  if (is_there) finished_.push_back(trial_id);
  return false;
}

void OtherTrials::take_waiting(int64_t trial_id, int64_t number) {
  if (!waiting_.contains(trial_id)) waiting_[trial_id] = reader_.read(trial_id, number);
}

std::vector<ForeignTrial> OtherTrials::take_finished() {
  std::vector<ForeignTrial> trials;
  for (const int64_t trial_id : std::exchange(finished_, {})) {
    Statement row = database_.prepare(concat(kForeignColumns, "WHERE t.trial_id = ?"));
    row.bind(1, trial_id);
    TrialDetails details(database_, study_id_);
    try {
      if (row.step()) trials.push_back(foreign_trial_of(row, details));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUsage) throw;  // there is nothing to learn from such a one
    }
  }
  std::ranges::sort(trials, {}, &ForeignTrial::number);
  return trials;
}

std::vector<WaitingTrial> OtherTrials::waiting() const {
  std::vector<WaitingTrial> trials;
  for (const auto& [trial_id, trial] : waiting_) trials.push_back(trial);
  return trials;
}

Json select_description(Database& database, int64_t study_id) {
  if (!has_own_tables(database)) return nullptr;
  Statement row = database.prepare("SELECT description FROM muster_studies WHERE study_id = ?");
  row.bind(1, study_id);
  if (!row.step()) return nullptr;
  return parse_json(row.text(0), "the study's description");
}

StudySummary select_summary(Database& database, int64_t study_id) {
  StudySummary summary;
  Statement row = database.prepare(
      "SELECT study_name, (SELECT count(*) FROM trials AS t WHERE t.study_id = s.study_id) "
      "FROM studies AS s WHERE study_id = ?");
  row.bind(1, study_id);
  if (row.step()) {
    summary.name = row.text(0);
    summary.trials = row.integer(1);
  }
  summary.description = select_description(database, study_id);
  std::vector<Objective> objectives = optuna_objectives(database, study_id);
  summary.mode = objectives[0].mode;
  summary.metric = text_in(summary.description, "metric", objectives[0].metric);
  summary.goals = described_goals(summary.description);
  if (summary.description.is_null() && objectives.size() > 1)
    summary.goals.objectives = std::move(objectives);
  return summary;
}

std::set<std::string> select_parameter_names(Database& database, int64_t study_id) {
  Statement rows = database.prepare(
      "SELECT DISTINCT param_name FROM trial_params JOIN trials USING (trial_id) "
      "WHERE study_id = ?");
  rows.bind(1, study_id);
  std::set<std::string> names;
  while (rows.step()) names.emplace(rows.text(0));
  return names;
}

}  // namespace muster::tune
