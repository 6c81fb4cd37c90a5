#include "muster/tune/views/export.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/track/utf8.h"
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
  line.add("number").add("state").add("value");
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
                           std::span<const std::string> metrics) {
  CsvLine line;
  const double value = result_of(trial, facts);
  line.add_count(trial_id(trial)).add(optuna_name(trial.state)).add_if(!std::isnan(value), value);
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
  for (const TrialHistory& trial : trials) text += trial_csv_line(trial, facts, metrics);
  return track::to_utf8(text);
}

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
  for (const auto& [attempt, t, donor, before] : trial.changes)
    json["changes"].push_back({{"attempt", attempt},
                               {"step", t},
                               {"donor", donor < 0 ? Json() : Json(donor)},
                               {"before", config_of(before, facts)}});
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
  return {{"name", facts.name},
          {"metric", facts.metric},
          {"mode", name_of(facts.mode)},
          {"scope", name_of(facts.scope)},
          {"parameters", std::move(parameters)},
          {"best_trial", best != nullptr ? Json(trial_id(*best)) : Json()},
          {"trials", std::move(list)}};
}

}  // namespace muster::tune
