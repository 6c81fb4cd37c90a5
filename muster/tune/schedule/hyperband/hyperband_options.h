// HyperBand: the options that C++ users name.
#pragma once

#include <cstdint>
#include <string>

namespace muster::tune {

/// Names are Ray Tune's, as far as it has them; `grace_period` and `order` are ours. Times are in the
/// unit of the reported step.
struct HyperbandOptions {
  int64_t max_t = 81;             ///< R: the most that a trial is trained
  int64_t grace_period = 1;       ///< r: no trial is judged before
  int64_t reduction_factor = 3;   ///< eta: one of so many goes on at each rung
  std::string order = "largest";  ///< the bracket with the most trials first; or "smallest"
  bool stop_last_trials = true;   ///< trials end at max_t
  std::string of;                 ///< the objective that it goes by, in a study of several
};

/// The scheduler as StudySpec::scheduler names it: "hyperband:max_t=27,reduction_factor=2". Throws
/// a usage error for options that make no sense.
std::string hyperband(const HyperbandOptions& options);

}  // namespace muster::tune
