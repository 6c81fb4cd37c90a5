#include "muster/tune/storage/optuna_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/space/python_text.h"
#include "muster/tune/storage/optuna_schema.h"
#include "muster/tune/storage/study_tables.h"

namespace muster::tune {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

}  // namespace

OptunaRows::OptunaRows(Database& database,
                       Target target,
                       const Space& space,
                       const OpenedTrials& opened)
    : target_(std::move(target)), database_(database) {
  learn_space(space);
  learn_trials(opened);
  last_number_ = database.prepare(
      "SELECT number FROM trials WHERE study_id = ? ORDER BY trial_id DESC LIMIT 1");
  add_trial_ = database.prepare(
      "INSERT INTO trials (number, study_id, state, datetime_start) VALUES (?, ?, 'RUNNING', ?)");
  adopt_trial_ = database.prepare(
      "UPDATE trials SET state = 'RUNNING', datetime_start = ? "
      "WHERE study_id = ? AND number = ? AND state = 'WAITING' RETURNING trial_id");
  trial_id_of_ =
      database.prepare("SELECT trial_id FROM muster_trials WHERE study_id = ? AND number = ?");
  add_own_ =
      database.prepare("INSERT INTO muster_trials (trial_id, study_id, number) VALUES (?, ?, ?)");
  add_param_ = database.prepare(
      "INSERT OR REPLACE INTO trial_params "
      "(trial_id, param_name, param_value, distribution_json) VALUES (?, ?, ?, ?)");
  drop_params_ = database.prepare("DELETE FROM trial_params WHERE trial_id = ?");
  add_attribute_ = database.prepare(
      "INSERT OR REPLACE INTO trial_user_attributes (trial_id, \"key\", value_json) "
      "VALUES (?, ?, ?)");
  add_system_attribute_ = database.prepare(
      "INSERT OR REPLACE INTO trial_system_attributes (trial_id, \"key\", value_json) "
      "VALUES (?, ?, ?)");
  set_start_ = database.prepare("UPDATE trials SET datetime_start = ? WHERE trial_id = ?");
  add_point_ = database.prepare(
      "INSERT OR IGNORE INTO trial_intermediate_values "
      "(trial_id, step, intermediate_value, intermediate_value_type) VALUES (?, ?, ?, ?)");
  add_value_ = database.prepare(
      "INSERT INTO trial_values (trial_id, objective, value, value_type) VALUES (?1, ?4, ?2, ?3)");
  end_trial_ =
      database.prepare("UPDATE trials SET state = ?, datetime_complete = ? WHERE trial_id = ?");
}

void OptunaRows::learn_space(const Space& space) {
  const auto parameters = space.parameters();
  const auto dimensions = space.dimensions();
  for (size_t p = 0; p < parameters.size(); ++p) {
    const Domain& domain = parameters[p].domain;
    std::vector<Value> image;
    if (domain.kind() == Domain::Kind::kExpression)
      image = space.image_of(p).value_or(std::vector<Value>());
    if (!image.empty()) {
      columns_.push_back(
          {parameters[p].name, distribution_json(CategoricalDistribution{image}), 0, p, image});
      continue;
    }
    for (size_t d = 0; d < dimensions.size(); ++d) {
      if (dimensions[d].parameter == p)
        columns_.push_back(
            {dimensions[d].name, distribution_json(dimensions[d].distribution), d, p, {}});
    }
    if (domain.kind() == Domain::Kind::kConstant) {
      attributes_.push_back({parameters[p].name, p, python_json(domain.constant())});
    } else if (domain.kind() == Domain::Kind::kExpression ||
               domain.kind() == Domain::Kind::kFunction) {
      attributes_.push_back({parameters[p].name, p, std::nullopt});
    }
  }
}

void OptunaRows::learn_trials(const OpenedTrials& opened) {
  Statement points = database_.prepare(
      "SELECT intermediate_value_type, intermediate_value FROM trial_intermediate_values "
      "WHERE trial_id = ? ORDER BY step");
  for (const OpenedTrials::Running& trial : opened.running) {
    Row row = new_row(trial.trial_id, trial.started_s);
    points.bind(1, row.trial_id);
    while (points.step()) {
      const double value = from_value_type(points.text(0), points.number(1));
      take_metric(value, target_.mode, row.last, row.best);
    }
    rows_[trial.number] = row;
  }
  if (target_.goals.any() && !rows_.empty()) learn_goals();
}

/// From the log, which alone has it.
void OptunaRows::learn_goals() {
  visit_events(database_, target_.study_id, 0, kLastEvent, [&](Event&& event) {
    const auto* reported = std::get_if<Reported>(&event.what);
    const auto row = rows_.find(event.trial);
    if (reported != nullptr && row != rows_.end())
      take_metrics(target_.goals, reported->report.metrics, row->second.values);
  });
}

OptunaRows::Row OptunaRows::new_row(int64_t trial_id, double started_s) const {
  return {.trial_id = trial_id,
          .last = kNone,
          .best = kNone,
          .started_s = started_s,
          .values = no_values(target_.goals)};
}

OptunaRows::Row& OptunaRows::row_of(int64_t trial) {
  const auto found = rows_.find(trial);
  if (found == rows_.end()) {
    throw internal_error({.refused = concat("an event of trial ", trial),
                          .rule = "the trial was added and is not over"});
  }
  return found->second;
}

void OptunaRows::remember(int64_t trial) {
  const auto found = rows_.find(trial);
  undo_.emplace_back(trial, found == rows_.end() ? std::nullopt : std::optional(found->second));
}

void OptunaRows::undo() {
  for (; !undo_.empty(); undo_.pop_back()) {
    auto& [trial, row] = undo_.back();
    if (row) {
      rows_[trial] = std::move(*row);
    } else {
      rows_.erase(trial);
    }
  }
}

void OptunaRows::write(const Event& event) {
  if (event.trial < 0) return;
  remember(event.trial);
  if (const auto* added = std::get_if<TrialAdded>(&event.what)) add(event, *added);
  if (const auto* started = std::get_if<AttemptStarted>(&event.what)) start(event, *started);
  if (const auto* reported = std::get_if<Reported>(&event.what)) report(event, *reported);
  if (const auto* ended = std::get_if<AttemptEnded>(&event.what)) end(event, *ended);
}

/// Its own row is there; that of a trial which was added is looked up.
void OptunaRows::learn(const Event& event) {
  if (event.trial < 0) return;
  if (std::holds_alternative<TrialAdded>(event.what)) {
    trial_id_of_.bind(1, target_.study_id).bind(2, event.trial);
    if (trial_id_of_.step()) {
      rows_[event.trial] = new_row(trial_id_of_.integer(0), event.time_s);
      trial_id_of_.reset();
    }
  } else if (const auto* ended = std::get_if<AttemptEnded>(&event.what)) {
    if (is_over(ended->then)) rows_.erase(event.trial);
  }
}

/// Optuna counts the study's trials with a smaller id: the number before plus one.
int64_t OptunaRows::next_number() {
  last_number_.bind(1, target_.study_id);
  const int64_t number = last_number_.step() ? last_number_.integer(0) + 1 : 0;
  last_number_.reset();
  return number;
}

void OptunaRows::add(const Event& event, const TrialAdded& added) {
  if (rows_.contains(event.trial))
    throw internal_error({.refused = concat("trial ", event.trial), .rule = "it is added once"});
  const std::string start = to_datetime(event.time_s);
  const int64_t trial_id =
      added.adopted < 0 ? add_trial_row(start) : adopt_trial_row(added.adopted, start);
  add_own_.bind(1, trial_id).bind(2, target_.study_id).bind(3, event.trial).run();
  add_params(trial_id, added.point, added.values);
  rows_[event.trial] = new_row(trial_id, event.time_s);
}

int64_t OptunaRows::add_trial_row(const std::string& start) {
  add_trial_.bind(1, next_number()).bind(2, target_.study_id).bind(3, start).run();
  return database_.last_rowid();
}

int64_t OptunaRows::adopt_trial_row(int64_t optuna_number, const std::string& start) {
  adopt_trial_.bind(1, start).bind(2, target_.study_id).bind(3, optuna_number);
  int64_t trial_id = -1;
  while (adopt_trial_.step()) trial_id = adopt_trial_.integer(0);
  if (trial_id >= 0) return trial_id;
  throw internal_error({.refused = concat("Optuna's trial ", optuna_number),
                        .rule = "it waits to be run when it is taken over"});
}

void OptunaRows::add_params(int64_t trial_id, const Point& point, const Values& values) {
  for (const Column& column : columns_) {
    double number = column.image.empty() ? point.at(column.dimension) : kNone;
    if (!column.image.empty()) {
      const auto at = std::ranges::find(column.image, values.at(column.parameter));
      if (at != column.image.end()) number = static_cast<double>(at - column.image.begin());
    }
    if (std::isnan(number)) continue;  // does not apply in this trial
    add_param_.bind(1, trial_id)
        .bind(2, column.name)
        .bind(3, number)
        .bind(4, column.distribution)
        .run();
  }
  for (const Attribute& attribute : attributes_) {
    const Value& value = values.at(attribute.parameter);
    if (value.is_none()) continue;
    set_attribute(
        trial_id, attribute.name, attribute.constant ? *attribute.constant : python_json(value));
  }
}

void OptunaRows::set_attribute(int64_t trial_id, std::string_view key, std::string_view json) {
  add_attribute_.bind(1, trial_id).bind(2, key).bind(3, json).run();
}

/// The trial has started when its first attempt has.
void OptunaRows::start(const Event& event, const AttemptStarted& started) {
  Row& row = row_of(event.trial);
  if (!started.point.empty()) {
    drop_params_.bind(1, row.trial_id).run();
    add_params(row.trial_id, started.point, started.values);
  }
  if (started.attempt != 1 || row.started_s == event.time_s) return;
  row.started_s = event.time_s;
  set_start_.bind(1, to_datetime(event.time_s)).bind(2, row.trial_id).run();
}

void OptunaRows::report(const Event& event, const Reported& reported) {
  Row& row = row_of(event.trial);
  take_metrics(target_.goals, reported.report.metrics, row.values);
  if (target_.goals.several()) return;
  const double* metric = find_metric(reported.report.metrics, target_.metric);
  if (metric == nullptr) return;
  take_metric(*metric, target_.mode, row.last, row.best);
  add_point_.bind(1, row.trial_id).bind(2, reported.t).bind(4, value_type(*metric));
  if (std::isfinite(*metric)) {
    add_point_.bind(3, *metric);
  } else {
    add_point_.bind_null(3);
  }
  add_point_.run();
}

std::vector<double> OptunaRows::results_of(const Row& row) const {
  if (target_.goals.several()) return row.values.results;
  return {target_.scope == StudySpec::Scope::kBest ? row.best : row.last};
}

/// Of one that could not be measured there is nothing to say.
void OptunaRows::add_constraints(const Row& row) {
  std::vector<std::string> numbers;
  for (const double violation : row.values.violations) {
    if (std::isnan(violation)) return;
    numbers.push_back(python_number(violation));
  }
  if (numbers.empty()) return;
  const std::string json = concat('[', join(numbers, ", "), ']');
  add_system_attribute_.bind(1, row.trial_id).bind(2, "constraints").bind(3, json).run();
}

void OptunaRows::end(const Event& event, const AttemptEnded& ended) {
  Row& row = row_of(event.trial);
  if (!is_over(ended.then)) return;
  const std::vector<double> values = results_of(row);
  const auto is_nan = [](double value) { return std::isnan(value); };
  const bool has_value = ended.then != TrialState::kFailed && std::ranges::none_of(values, is_nan);
  const TrialState state =
      ended.then == TrialState::kComplete && !has_value ? TrialState::kFailed : ended.then;
  for (size_t i = 0; i < values.size() && has_value; ++i) {
    add_value_.bind(1, row.trial_id)
        .bind(3, value_type(values[i]))
        .bind(4, static_cast<int64_t>(i));
    if (std::isfinite(values[i])) {
      add_value_.bind(2, values[i]);
    } else {
      add_value_.bind_null(2);
    }
    add_value_.run();
  }
  if (ended.then != TrialState::kFailed) add_constraints(row);
  if (!ended.message.empty())
    set_attribute(row.trial_id, "muster_reason", python_json(ended.message));
  end_trial_.bind(1, optuna_name(state))
      .bind(2, to_datetime(event.time_s))
      .bind(3, row.trial_id)
      .run();
  rows_.erase(event.trial);
}

}  // namespace muster::tune
