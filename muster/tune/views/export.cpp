#include "muster/tune/views/export.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/track/utf8.h"
#include "muster/tune/core/description.h"
#include "muster/tune/space/python_text.h"

namespace muster::tune {
namespace {

/// A line of comma-separated cells.
class CsvLine {
 public:
  CsvLine& add(std::string_view cell) {
    if (!first_) line_ += ',';
    first_ = false;
    if (cell.find_first_of(",\"\r\n") == std::string_view::npos) {
      line_ += cell;
      return *this;
    }
    line_ += '"';
    for (const char c : cell) {
      if (c == '"') line_ += '"';
      line_ += c;
    }
    line_ += '"';
    return *this;
  }
  CsvLine& add_number(double value) { return add(shortest(value)); }
  CsvLine& add_if(bool has, double value) { return has ? add_number(value) : add(""); }
  CsvLine& add_count(int64_t value) { return add(std::to_string(value)); }
  std::string take() && { return std::move(line_) + '\n'; }

 private:
  std::string line_;
  bool first_ = true;
};

/// All constraints have a number.
bool is_known(const GoalValues& values) {
  return std::ranges::none_of(values.violations, [](double x) { return std::isnan(x); });
}

Json number_json(double value) { return to_json(Value(value)); }
Json time_json(double time_s) { return time_s > 0 ? Json(utc_text(time_s)) : Json(); }

/// The newest number of every metric.
std::map<std::string, double, std::less<>> last_metrics(const TrialHistory& trial) {
  std::map<std::string, double, std::less<>> last;
  for (const TrialHistory::Row& row : trial.rows) {
    for (const auto& [name, value] : row.metrics) last[name] = value;
  }
  return last;
}

std::string header(const StudyFacts& facts, std::span<const std::string> metrics) {
  CsvLine line;
  line.add("number").add("state");
  if (!facts.goals.several()) line.add("value");
  for (const Objective& objective : facts.goals.objectives)
    line.add(concat("values_", objective.metric));
  if (!facts.goals.constraints.empty()) line.add("violation");
  if (facts.goals.several()) line.add("on_front");
  for (const auto& parameter : facts.parameters) line.add(concat("params_", parameter.name));
  for (const std::string& metric : metrics) line.add(concat("metrics_", metric));
  for (const char* name : {"step",
                           "reports",
                           "attempts",
                           "datetime_start",
                           "datetime_complete",
                           "run_s",
                           "failure",
                           "reason"})
    line.add(name);
  return std::move(line).take();
}

std::string trial_csv_line(const TrialHistory& trial,
                           const StudyFacts& facts,
                           std::span<const std::string> metrics,
                           bool on_front) {
  CsvLine line;
  line.add_count(trial_id(trial)).add(optuna_name(trial.state));
  for (const double value : results_of(trial, facts)) line.add_if(!std::isnan(value), value);
  if (!facts.goals.constraints.empty()) {
    const bool known = is_known(trial.goals) && !trial.goals.violations.empty();
    line.add_if(known, trial.goals.violation());
  }
  if (facts.goals.several()) line.add_count(on_front ? 1 : 0);
  for (const Value& parameter : trial.values) line.add(value_text(parameter));
  const auto last = last_metrics(trial);
  for (const std::string& metric : metrics) {
    const auto found = last.find(metric);
    line.add_if(found != last.end(), found != last.end() ? found->second : 0);
  }
  line.add(trial.rows.empty() ? "" : std::to_string(trial.rows.back().t))
      .add_count(static_cast<int64_t>(trial.rows.size()))
      .add_count(trial.attempts)
      .add(utc_text(trial.started_s))
      .add(utc_text(trial.ended_s))
      .add_number(trial.run_s)
      .add(trial.failure == Failure::kNone ? "" : name_of(trial.failure))
      .add(trial.reason);
  return std::move(line).take();
}

Json report_json(const TrialHistory::Row& row) {
  Json metrics = Json::object();
  for (const auto& [name, value] : row.metrics) metrics[name] = number_json(value);
  return {{"step", row.t},
          {"attempt", row.attempt},
          {"time", time_json(row.time_s)},
          {"run_s", row.run_s},
          {"metrics", std::move(metrics)}};
}

}  // namespace

std::string utc_text(double time_s) {
  if (time_s <= 0) return "";
  std::string text = to_datetime(time_s);
  text[text.find(' ')] = 'T';
  return text + 'Z';
}

std::string to_csv(std::span<const TrialHistory> trials, const StudyFacts& facts) {
  const std::vector<std::string> metrics = metric_names(trials, facts);
  std::string text = header(facts, metrics);
  const auto front = front_of(trials, facts);
  for (const TrialHistory& trial : trials) {
    const bool on_front = std::ranges::find(front, &trial) != front.end();
    text += trial_csv_line(trial, facts, metrics, on_front);
  }
  return track::to_utf8(text);
}

namespace {

/// What it has of several objectives and of constraints, by their names.
void add_goals(const TrialHistory& trial, const StudyFacts& facts, Json& json) {
  const Goals& goals = facts.goals;
  if (goals.several()) {
    json.erase("value");
    json["values"] = Json::object();
    for (size_t i = 0; i < goals.objectives.size(); ++i) {
      const double result = trial.goals.results[i];
      json["values"][goals.objectives[i].metric] =
          std::isnan(result) ? Json() : number_json(result);
    }
  }
  if (!trial.goals.violations.empty()) {
    const bool known = is_known(trial.goals);
    json["violation"] = known ? number_json(trial.goals.violation()) : Json();
    json["feasible"] = known ? Json(trial.goals.is_feasible()) : Json();
  }
}

/// The study's, where one metric has its own keys.
void add_goals(std::span<const TrialHistory> trials, const StudyFacts& facts, Json& json) {
  describe_goals(facts.goals, json);
  if (!facts.goals.several()) return;
  for (const char* key : {"metric", "mode", "best_trial"}) json.erase(key);
  json["best_trials"] = Json::array();
  const auto front = front_of(trials, facts);
  for (const TrialHistory* trial : front) json["best_trials"].push_back(trial_id(*trial));
  for (size_t i = 0; i < trials.size(); ++i)
    json["trials"][i]["on_front"] = std::ranges::find(front, &trials[i]) != front.end();
}

}  // namespace

Json to_json(const TrialHistory& trial, const StudyFacts& facts, bool reports) {
  const double value = result_of(trial, facts);
  Json params = Json::object(), metrics = Json::object(), rows = Json::array();
  for (size_t i = 0; i < facts.parameters.size(); ++i)
    if (!trial.values[i].is_none()) params[facts.parameters[i].name] = to_json(trial.values[i]);
  for (const auto& [name, last] : last_metrics(trial)) metrics[name] = number_json(last);
  for (const TrialHistory::Row& row : trial.rows) rows.push_back(report_json(row));
  Json json = {{"number", trial_id(trial)},
               {"state", optuna_name(trial.state)},
               {"value", std::isnan(value) ? Json() : number_json(value)},
               {"params", std::move(params)},
               {"metrics", std::move(metrics)},
               {"step", trial.rows.empty() ? Json() : Json(trial.rows.back().t)},
               {"attempts", trial.attempts},
               {"started", time_json(trial.started_s)},
               {"ended", time_json(trial.ended_s)},
               {"run_s", trial.run_s},
               {"failure", trial.failure == Failure::kNone ? Json() : Json(name_of(trial.failure))},
               {"reason", trial.reason}};
  if (trial.state == TrialState::kPaused) json["state"] = "PAUSED";
  if (trial.by_user) json["by_user"] = true;
  add_goals(trial, facts, json);
  for (const auto& [attempt, t, donor, before] : trial.changes)
    json["changes"].push_back({{"attempt", attempt},
                               {"step", t},
                               {"donor", donor < 0 ? Json() : Json(donor)},
                               {"before", config_of(before, facts)}});
  if (trial.optuna_number) json["optuna_number"] = *trial.optuna_number;
  if (trial.foreign) {
    json["added_by"] = trial.again ? "muster" : "optuna";
    json["optuna_number"] = trial.number;
    json["in_vain"] = trial.in_vain;
  }
  json["reports"] = reports ? std::move(rows) : Json(rows.size());
  return json;
}

Json to_json(std::span<const TrialHistory> trials, const StudyFacts& facts) {
  Json parameters = Json::object(), list = Json::array();
  for (const auto& parameter : facts.parameters) parameters[parameter.name] = parameter.domain;
  for (const TrialHistory& trial : trials) list.push_back(to_json(trial, facts, true));
  const TrialHistory* best = best_of(trials, facts);
  Json json = {{"name", facts.name},
               {"metric", facts.metric},
               {"mode", name_of(facts.mode)},
               {"scope", name_of(facts.scope)},
               {"parameters", std::move(parameters)},
               {"best_trial", best != nullptr ? Json(trial_id(*best)) : Json()},
               {"trials", std::move(list)}};
  add_goals(trials, facts, json);
  return json;
}

}  // namespace muster::tune
