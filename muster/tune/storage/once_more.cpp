#include "muster/tune/storage/once_more.h"

#include <cmath>
#include <limits>
#include <string_view>
#include <utility>
#include <variant>

#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tune/core/event.h"
#include "muster/tune/storage/optuna_schema.h"
#include "muster/tune/storage/study_tables.h"

namespace muster::tune {
namespace {

/// Empty for what is no point.
Point point_in(const Json& json) {
  Point point;
  if (!json.is_array()) return point;
  for (const Json& number : json) {
    if (!number.is_null() && !number.is_number()) return {};
    point.push_back(number.is_null() ? std::numeric_limits<double>::quiet_NaN()
                                     : number.get<double>());
  }
  return point;
}

void take(LoggedTrial& trial, Event&& event) {
  if (auto* const added = std::get_if<TrialAdded>(&event.what))
    trial.point = std::move(added->point);
  if (auto* const started = std::get_if<AttemptStarted>(&event.what)) {
    if (!started->point.empty()) trial.point = std::move(started->point);
    trial.end.reset();
  }
  if (const auto* const ended = std::get_if<AttemptEnded>(&event.what)) trial.end = ended->then;
}

}  // namespace

std::optional<double> select_began(Database& database, int64_t study_id) {
  if (!has_own_tables(database)) return std::nullopt;
  Statement row = database.prepare("SELECT time FROM muster_events WHERE event_key = ?");
  row.bind(1, event_key(study_id, 1));
  return row.step() ? std::optional(row.number(0)) : std::nullopt;
}

OnceMoreReader::OnceMoreReader(Database& database, int64_t study_id)
    : database_(database),
      study_id_(study_id),
      attributes_(database.prepare("SELECT \"key\", value_json FROM trial_system_attributes "
                                   "WHERE trial_id = ? AND \"key\" IN (?, ?)")) {}

std::optional<OnceMore> OnceMoreReader::read(int64_t trial_id) {
  std::optional<int64_t> number;
  Json failed;
  attributes_.reset();  // where the one before could not be read
  attributes_.bind(1, trial_id).bind(2, kAgainAttribute).bind(3, kFailedAttribute);
  while (attributes_.step()) {
    if (attributes_.text(0) == kAgainAttribute) {
      number = to_int(attributes_.text(1));
    } else {
      failed = parse_json(attributes_.text(1), "a waiting trial's attribute");
    }
  }
  if (!number) return std::nullopt;
  if (!failed.is_object()) return OnceMore{.number = *number, .point = {}};
  const Json began = failed.value("began", Json());
  if (!began.is_number() || began.get<double>() != select_began(database_, study_id_))
    return std::nullopt;
  return OnceMore{.number = *number, .point = point_in(failed.value("point", Json()))};
}

std::string failed_attribute(double began_s, const Point& point) {
  Json numbers = Json::array();
  for (const double number : point) numbers.push_back(std::isnan(number) ? Json() : Json(number));
  return json_text(Json{{"began", began_s}, {"point", std::move(numbers)}});
}

std::map<int64_t, LoggedTrial> select_logged_trials(Database& database,
                                                    int64_t study_id,
                                                    std::span<const int64_t> numbers) {
  std::map<int64_t, LoggedTrial> trials;
  for (const int64_t number : numbers) trials[number];
  Statement rows = database.prepare(
      "SELECT event_key, time, trial, kind, payload FROM muster_events WHERE event_key >= ? AND "
      "event_key < ? AND kind IN ('trial_added', 'attempt_started', 'attempt_ended') "
      "ORDER BY event_key");
  rows.bind(1, event_key(study_id, 0)).bind(2, event_key(study_id + 1, 0));
  while (rows.step()) {
    const auto trial = trials.find(rows.integer(2));
    if (trial != trials.end()) take(trial->second, event_of(rows, study_id));
  }
  return trials;
}

}  // namespace muster::tune
