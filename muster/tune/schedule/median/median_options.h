// Median stopping: the options that C++ users name.
#pragma once

#include <cstdint>
#include <string>

namespace muster::tune {

/// Names are those of Ray Tune's MedianStoppingRule and of Optuna's PercentilePruner; an option of
/// one rule is refused with the other. Times are in the unit of the reported step.
struct MedianOptions {
  std::string rule = "ray";  ///< or "optuna": see schedulers/median.cpp

  // Of `ray`.
  int64_t grace_period = 1;          ///< no stop before; means begin here. Ray: 60, in seconds
  int64_t min_samples_required = 3;  ///< other trials that are as far, or nobody is stopped
  bool hard_stop = true;             ///< else trials pause, and go on when no new one comes

  // Of `optuna`.
  double percentile = 50;        ///< the best so many percent of trials go on
  int64_t n_startup_trials = 5;  ///< trials that are complete, or nobody is stopped
  int64_t n_warmup_steps = 0;    ///< no stop before
  int64_t interval_steps = 1;    ///< judged once in so many steps
  int64_t n_min_trials = 1;      ///< complete trials with a report at this step, likewise

  std::string of;  ///< the objective that it goes by, in a study of several
};

/// The scheduler as StudySpec::scheduler names it: "median:rule=optuna,percentile=25". Throws a
/// usage error for options that make no sense.
std::string median(const MedianOptions& options);

}  // namespace muster::tune
