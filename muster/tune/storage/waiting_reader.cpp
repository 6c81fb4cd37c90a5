#include "muster/tune/storage/waiting_reader.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tune/storage/optuna_schema.h"

namespace muster::tune {

WaitingReader::WaitingReader(Database& database, int64_t study_id)
    : params_(database.prepare("SELECT param_name, param_value, distribution_json "
                               "FROM trial_params WHERE trial_id = ?")),
      attributes_(database.prepare("SELECT \"key\", value_json FROM trial_system_attributes "
                                   "WHERE trial_id = ?")),
      once_more_(database, study_id) {}

/// Optuna's enqueue_trial keeps what is fixed in an attribute; create_trial has parameters.
WaitingTrial WaitingReader::read(int64_t trial_id, int64_t number) {
  WaitingTrial trial{.number = number};
  params_.reset();  // where the one before could not be read
  attributes_.reset();
  try {
    add_params(trial, trial_id);
    add_attributes(trial, trial_id);
    if (auto failed = once_more_.read(trial_id)) {
      trial.again = failed->number;
      trial.point = std::move(failed->point);
    }
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
  attributes_.bind(1, trial_id);
  while (attributes_.step()) {
    const std::string_view key = attributes_.text(0);
    if (key != "fixed_params" && key != kAddedAttribute) continue;
    const Json json = parse_json(attributes_.text(1), "a waiting trial's attribute");
    if (key == kAddedAttribute) trial.added = true;
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
