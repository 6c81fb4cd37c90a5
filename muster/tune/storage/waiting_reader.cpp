#include "muster/tune/storage/waiting_reader.h"

#include <limits>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tune/storage/optuna_schema.h"

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

}  // namespace

WaitingReader::WaitingReader(Database& database)
    : params_(database.prepare("SELECT param_name, param_value, distribution_json "
                               "FROM trial_params WHERE trial_id = ?")),
      attributes_(database.prepare("SELECT \"key\", value_json FROM trial_system_attributes "
                                   "WHERE trial_id = ?")) {}

/// Optuna's enqueue_trial keeps what is fixed in an attribute; create_trial has parameters.
WaitingTrial WaitingReader::read(int64_t trial_id, int64_t number) {
  WaitingTrial trial{.number = number};
  params_.reset();  // where the one before could not be read
  attributes_.reset();
  try {
    add_params(trial, trial_id);
    add_attributes(trial, trial_id);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) throw;
    return {.number = number, .strange = error.what()};
  }
  return trial;
}

void WaitingReader::add_params(WaitingTrial& trial, int64_t trial_id) {
  params_.bind(1, trial_id);
  while (params_.step())
    trial.params[std::string(params_.text(0))] =
        value_from_optuna(params_.number(1), params_.text(2));
}

void WaitingReader::add_attributes(WaitingTrial& trial, int64_t trial_id) {
  const auto is_read = [](std::string_view key) {
    return key == "fixed_params" || key == kAgainAttribute || key == kPointAttribute ||
           key == kAddedAttribute;
  };
  attributes_.bind(1, trial_id);
  while (attributes_.step()) {
    const std::string_view key = attributes_.text(0);
    if (!is_read(key)) continue;
    const Json json = parse_json(attributes_.text(1), "a waiting trial's attribute");
    if (key == kAddedAttribute) trial.added = true;
    if (key == kAgainAttribute && json.is_number_integer()) trial.again = json.get<int64_t>();
    if (key == kPointAttribute) trial.point = point_in(json);
    if (key != "fixed_params" || !json.is_object()) continue;
    for (const auto& [name, value] : json.items())
      trial.params[name] = value_from(value, "a waiting trial's parameter");
  }
}

std::string why_in_vain(const WaitingTrial& trial, const Space& space) {
  std::string why = trial.strange;
  if (why.empty() && !trial.again) {
    try {
      space.point_of(trial.params);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUsage) throw;
      why = error.what();
    }
  }
  return join(split(why, '\n'), "; ");
}

}  // namespace muster::tune
