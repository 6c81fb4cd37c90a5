// Asynchronous successive halving: the options that C++ users name.
#pragma once

#include <cstdint>
#include <string>

namespace muster::tune {

/// Names and defaults are Ray Tune's; `variant` and `ray_compat` are ours. Times are in the unit of
/// the reported step.
struct AshaOptions {
  int64_t max_t = 100;               ///< the most that a trial is trained
  int64_t grace_period = 1;          ///< the lowest rung: no trial is stopped before
  double reduction_factor = 4;       ///< eta: each rung is so many times the one below
  int64_t brackets = 1;              ///< bracket s leaves out the s lowest rungs
  bool stop_last_trials = true;      ///< trials end at max_t
  std::string variant = "stopping";  ///< Ray's rule; or "promotion": trials pause at each rung
  bool ray_compat = false;
  std::string of;  ///< the objective that it goes by, in a study of several
};

/// The scheduler as StudySpec::scheduler names it: "asha:max_t=10,reduction_factor=2".
std::string asha(const AshaOptions& options);

}  // namespace muster::tune
