#include "muster/tune/views/history.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

namespace muster::tune {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

Error bad_log(const Event& event, std::string rule) {
  return usage_error({.refused = concat("event ", event.id, " of the study's log"),
                      .rule = std::move(rule),
                      .hint = "the database was altered"});
}

Error bad_description(const StudySummary& summary) {
  return usage_error({.refused = concat("the description of study \"", summary.name, "\""),
                      .rule = "it has a space of named domains and a scope",
                      .hint = "the database was altered"});
}

void add_described(const StudySummary& summary, StudyFacts& facts) {
  const Json& description = summary.description;
  if (!description.is_object() || !description.contains("space") ||
      !description["space"].is_array() || !description.contains("scope") ||
      !description["scope"].is_string())
    throw bad_description(summary);
  facts.scope = parse_scope(description["scope"].get<std::string>());
  for (const Json& parameter : description["space"]) {
    const auto text = [&](const char* key) -> std::string {
      if (!parameter.is_object() || !parameter.contains(key)) throw bad_description(summary);
      const Json& value = parameter[key];
      return value.is_string() ? value.get<std::string>() : json_text(value);
    };
    facts.parameters.push_back({text("name"), text("domain")});
  }
}

void set_nested(Json& object, std::string_view name, Json value) {
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos) {
    object[std::string(name)] = std::move(value);
    return;
  }
  Json& inner = object[std::string(name.substr(0, dot))];
  if (!inner.is_object()) inner = Json::object();
  set_nested(inner, name.substr(dot + 1), std::move(value));
}

}  // namespace

void HistoryBuilder::add(const Event& event) {
  std::visit([&](const auto& what) { take_in(event, what); }, event.what);
}

void HistoryBuilder::forget_rows(int64_t trial) {
  const auto rows = std::exchange(trials_.at(static_cast<size_t>(trial)).rows, {});
  rows_held_ -= rows.size();
}

TrialHistory& HistoryBuilder::trial_of(const Event& event) {
  if (event.trial < 0 || event.trial >= static_cast<int64_t>(trials_.size()))
    throw bad_log(event, concat("there is no trial ", event.trial));
  return trials_[static_cast<size_t>(event.trial)];
}

void HistoryBuilder::take_in(const Event& event, const TrialAdded& added) {
  if (event.trial != static_cast<int64_t>(trials_.size()))
    throw bad_log(event, concat("trial ", trials_.size(), " is the next to be added"));
  const size_t wanted = facts_.parameters.size();
  if (added.values.size() != wanted) {
    throw bad_log(event, concat("a trial has ", wanted, " values, here ", added.values.size()));
  }
  trials_.push_back({.number = event.trial,
                     .values = added.values,
                     .reason = added.reason,
                     .started_s = event.time_s,
                     .last = kNone,
                     .best = kNone,
                     .goals = no_values(facts_.goals)});
  attempt_started_s_.push_back(event.time_s);
  last_t_.push_back(0);
}

void HistoryBuilder::take_in(const Event& event, const AttemptStarted& started) {
  TrialHistory& trial = trial_of(event);
  if (started.attempt == 1) trial.started_s = event.time_s;
  if (started.donor >= 0 || !started.values.empty()) change(event, trial, started);
  trial.attempts = started.attempt;
  trial.checkpoint = started.from_checkpoint;
  trial.state = TrialState::kRunning;
  trial.ran.push_back({.from_s = event.time_s});
  attempt_started_s_[static_cast<size_t>(event.trial)] = event.time_s;
}

void HistoryBuilder::change(const Event& event,
                            TrialHistory& trial,
                            const AttemptStarted& started) {
  trial.changes.push_back({.attempt = started.attempt,
                           .t = last_t_[static_cast<size_t>(event.trial)],
                           .donor = started.donor,
                           .before = trial.values});
  if (started.values.empty()) return;
  if (started.values.size() != trial.values.size())
    throw bad_log(
        event,
        concat("a trial has ", trial.values.size(), " values, here ", started.values.size()));
  trial.values = started.values;
}

void HistoryBuilder::take_in(const Event& event, const Reported& reported) {
  TrialHistory& trial = trial_of(event);
  if (!reported.decision.reason.empty()) trial.reason = reported.decision.reason;
  if (!reported.report.checkpoint.empty()) trial.checkpoint = reported.report.checkpoint;
  const double attempt_s = event.time_s - attempt_started_s_[static_cast<size_t>(event.trial)];
  trial.rows.push_back({.time_s = event.time_s,
                        .t = reported.t,
                        .run_s = trial.run_s + attempt_s,
                        .attempt = reported.attempt,
                        .metrics = reported.report.metrics});
  ++rows_held_;
  last_t_[static_cast<size_t>(event.trial)] = reported.t;
  take_metrics(facts_.goals, reported.report.metrics, trial.goals);
  const double* metric = find_metric(reported.report.metrics, facts_.metric);
  if (metric == nullptr) return;
  take_metric(*metric, facts_.mode, trial.last, trial.best);
}

void HistoryBuilder::take_in(const Event& event, const AttemptEnded& ended) {
  TrialHistory& trial = trial_of(event);
  if (trial.state == TrialState::kRunning)
    trial.run_s += event.time_s - attempt_started_s_[static_cast<size_t>(event.trial)];
  if (!trial.ran.empty() && trial.ran.back().to_s == 0) trial.ran.back().to_s = event.time_s;
  trial.state = ended.then;
  trial.failure = ended.failure;
  // As in StudyCore: what an attempt before has failed of says nothing of one that ended well.
  if (!ended.message.empty() || ended.then == TrialState::kComplete) trial.reason = ended.message;
  if (is_over(ended.then)) trial.ended_s = event.time_s;
  trial.by_user = ended.by_user;
  if (ended.by_user || is_over(ended.then)) trial.pausing = false;
}

void HistoryBuilder::take_in(const Event& event, const PauseOrdered&) {
  trial_of(event).pausing = true;
}

void HistoryBuilder::take_in(const Event& event, const ContinueOrdered& order) {
  TrialHistory& trial = trial_of(event);
  trial.pausing = false;
  if (trial.state != TrialState::kPaused) return;
  trial.state = TrialState::kPending;
  trial.by_user = false;
  trial.reason = order.reason;
}

/// As StudyCore::note_in_vain words it; the table names the trial by itself.
void HistoryBuilder::take_in(const Event& event, const CheckpointSaved& saved) {
  trial_of(event).checkpoint = saved.checkpoint;
}

void HistoryBuilder::take_in(const Event&, const TunerNote& note) {
  if (note.in_vain < 0) return;
  const size_t colon = note.text.find(": ");
  in_vain_[note.in_vain] = colon == note.text.npos ? note.text : note.text.substr(colon + 2);
}

StudyFacts facts_of(const StudySpec& spec) {
  StudyFacts facts{
      .name = spec.name, .metric = spec.metric, .mode = spec.mode, .scope = spec.scope};
  facts.goals = spec.goals;
  for (const Parameter& parameter : spec.space.parameters())
    facts.parameters.push_back({parameter.name, parameter.domain.text()});
  return facts;
}

StudyFacts facts_of(const StudySummary& summary, std::span<const ForeignTrial> foreign) {
  StudyFacts facts{.name = summary.name, .metric = summary.metric, .mode = summary.mode};
  facts.goals = summary.goals;
  if (!summary.description.is_null()) {
    add_described(summary, facts);
    return facts;
  }
  std::set<std::string> names;
  for (const ForeignTrial& trial : foreign) {
    for (const auto& [name, value] : trial.params) {
      if (names.insert(name).second)
        facts.parameters.push_back({.name = name, .log = trial.log_params.contains(name)});
    }
  }
  return facts;
}

std::vector<TrialHistory> histories(std::span<const Event> events, const StudyFacts& facts) {
  HistoryBuilder builder(facts);
  for (const Event& event : events) builder.add(event);
  return std::move(builder).take();
}

std::vector<TrialHistory> histories(std::span<const ForeignTrial> trials, const StudyFacts& facts) {
  std::vector<TrialHistory> out;
  for (const ForeignTrial& trial : trials) {
    TrialHistory& history = out.emplace_back();
    history.number = trial.number;
    history.foreign = true;
    history.state = trial.state;
    history.attempts = 1;
    history.started_s = trial.started_s;
    history.ended_s = trial.ended_s;
    if (trial.started_s > 0) history.ran.push_back({trial.started_s, trial.ended_s});
    history.again = trial.again;
    if (trial.again) history.reason = concat("trial ", *trial.again, " once more");
    if (trial.ended_s > 0) history.run_s = trial.ended_s - trial.started_s;
    for (const StudyFacts::Parameter& parameter : facts.parameters) {
      const auto found = trial.params.find(parameter.name);
      history.values.push_back(found == trial.params.end() ? Value() : found->second);
    }
    if (trial.state == TrialState::kPending && !trial.in_vain.empty()) {
      history.in_vain = true;
      history.reason = trial.in_vain;
    }
    history.last = history.best = trial.value;
    history.goals = no_values(facts.goals);
    if (trial.values.size() == facts.goals.objectives.size()) history.goals.results = trial.values;
    history.goals.violations = trial.constraints;
    for (const auto& [step, value] : trial.intermediate) {
      history.rows.push_back({.t = step, .metrics = {{facts.metric, value}}});
      double newest = 0;  // what such a trial has in the end, Optuna keeps apart
      take_metric(value, facts.mode, newest, history.best);
    }
  }
  return out;
}

std::vector<TrialHistory> histories(std::span<const Event> events,
                                    std::span<const ForeignTrial> foreign,
                                    const StudyFacts& facts) {
  HistoryBuilder builder(facts);
  for (const Event& event : events) builder.add(event);
  const std::map<int64_t, std::string> in_vain = builder.in_vain();
  std::vector<TrialHistory> out = std::move(builder).take();
  for (TrialHistory& trial : histories(foreign, facts)) {
    const auto why = in_vain.find(trial.number);
    if (why != in_vain.end() && trial.state == TrialState::kPending) {
      trial.in_vain = true;
      trial.reason = why->second;
    }
    out.push_back(std::move(trial));
  }
  return out;
}

bool goes_on(const TrialHistory& trial) {
  if (trial.foreign) return trial.state == TrialState::kPending && !trial.in_vain;
  return !is_over(trial.state);
}

std::string trial_label(const TrialHistory& trial) {
  return concat(trial.foreign ? "o" : "", trial.number);
}

std::string_view state_word(const TrialHistory& trial) {
  if (trial.in_vain) return "IN_VAIN";
  return trial.state == TrialState::kPaused ? "PAUSED" : optuna_name(trial.state);
}

std::string reason_text(const TrialHistory& trial) {
  if (!trial.foreign || !trial.reason.empty()) return trial.reason;
  return trial.state == TrialState::kPending ? "waits for a tuner" : "added by Optuna";
}

int64_t trial_id(const TrialHistory& trial) {
  return trial.foreign ? -1 - trial.number : trial.number;
}

double result_of(const TrialHistory& trial, const StudyFacts& facts) {
  return facts.scope == StudySpec::Scope::kBest ? trial.best : trial.last;
}

std::vector<Objective> objectives_of(const StudyFacts& facts) {
  if (facts.goals.several()) return facts.goals.objectives;
  return {{facts.metric, facts.mode}};
}

std::vector<double> results_of(const TrialHistory& trial, const StudyFacts& facts) {
  if (facts.goals.several()) return trial.goals.results;
  return {result_of(trial, facts)};
}

std::string metrics_text(const std::string& metric, const Goals& goals) {
  std::vector<std::string> names;
  for (const Objective& objective : goals.objectives) names.push_back(objective.metric);
  return names.empty() ? metric : join(names, ", ");
}

std::string modes_text(Mode mode, const Goals& goals) {
  std::vector<std::string> names;
  for (const Objective& objective : goals.objectives) names.emplace_back(name_of(objective.mode));
  return names.empty() ? std::string(name_of(mode)) : join(names, ", ");
}

size_t objective_named(std::string_view metric, const Goals& goals, const std::string& study) {
  if (metric.empty()) return 0;
  std::vector<std::string> names;
  for (const Objective& objective : goals.objectives) names.push_back(objective.metric);
  const auto found = std::ranges::find(names, metric);
  if (found != names.end()) return static_cast<size_t>(found - names.begin());
  throw usage_error({.refused = concat("study \"", study, "\" has no objective ", metric),
                     .rule = names.empty() ? "it has one objective" : "",
                     .hint = names.empty() ? "" : suggestion(metric, names)});
}

std::vector<std::string> metric_names(std::span<const TrialHistory> trials,
                                      const StudyFacts& facts) {
  std::vector<std::string> names = {facts.metric};
  std::set<std::string, std::less<>> seen = {facts.metric};
  for (const TrialHistory& trial : trials) {
    for (const TrialHistory::Row& row : trial.rows) {
      for (const auto& [name, value] : row.metrics) {
        if (!seen.contains(name)) names.push_back(*seen.insert(name).first);
      }
    }
  }
  return names;
}

const Values& values_in(const TrialHistory& trial, int32_t attempt) {
  const auto later = std::ranges::find_if(
      trial.changes, [&](const auto& change) { return change.attempt > attempt; });
  return later == trial.changes.end() ? trial.values : later->before;
}

Json config_of(const Values& values, const StudyFacts& facts) {
  Json config = Json::object();
  for (size_t i = 0; i < facts.parameters.size(); ++i) {
    if (!values[i].is_none()) set_nested(config, facts.parameters[i].name, to_json(values[i]));
  }
  return config;
}

Json config_of(const TrialHistory& trial, const StudyFacts& facts) {
  return config_of(trial.values, facts);
}

}  // namespace muster::tune
