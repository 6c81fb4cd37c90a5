// A study as one table or one document.
#pragma once

#include <span>
#include <string>

#include "muster/base/json_fwd.h"
#include "muster/tune/views/history.h"

namespace muster::tune {

/// One line per trial, after a header: number, state, value (by the study's scope; values_<metric> of
/// several objectives; violation and on_front where there are constraints, or objectives), params_<name>,
/// metrics_<name> (as last reported), step, reports, attempts, datetime_start, datetime_complete
/// (UTC), run_s, failure, reason. `number` is trial_id(). Names as in Optuna's trials_dataframe where it has the column.
/// What a trial has not is empty; NaN and infinities are nan, inf, -inf. RFC 4180, lines ended by
/// "\n".
std::string to_csv(std::span<const TrialHistory> trials, const StudyFacts& facts);

/// With several objectives "objectives" and "best_trials" in place of "metric", "mode" and "best_trial",
/// and "values" and "on_front" of a trial; with constraints "constraints", and "violation" of a trial.
/// {"name", "metric", "mode", "scope", "parameters", "best_trial", "trials": […]}; a trial has all
/// its reports, and "changes" if it went on as another (TrialHistory::Change). NaN and infinities are the texts "nan", "inf", "-inf".
Json to_json(std::span<const TrialHistory> trials, const StudyFacts& facts);

/// One trial of it; without `reports` only their number.
Json to_json(const TrialHistory& trial, const StudyFacts& facts, bool reports);

/// "2026-11-21T17:20:09.680195Z"; empty for 0.
std::string utc_text(double time_s);

}  // namespace muster::tune
