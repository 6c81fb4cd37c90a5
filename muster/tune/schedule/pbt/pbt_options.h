// Population based training: the options that C++ users name.
#pragma once

#include <cstdint>
#include <string>

namespace muster::tune {

/// Names are Ray Tune's, but for `mutate` and for perturbation_factors, which are two here. Times are
/// in the unit of the reported step.
struct PbtOptions {
  int64_t perturbation_interval = 5;   ///< a trial is judged when so much came since it was last
  int64_t burn_in_period = 0;          ///< and not before this t
  double quantile_fraction = 0.25;     ///< of the population: the worst copy the best; 0 … 0.5
  double resample_probability = 0.25;  ///< that a parameter is drawn anew instead of moved
  double perturb_up = 1.2;             ///< what a number is multiplied by, or
  double perturb_down = 0.8;           ///< by this
  bool synch = false;                  ///< all trials wait for each other at each interval
  /// Names of the parameters that are changed, with blanks between; the others are copied. Empty: all
  /// that are drawn from real numbers (whole numbers and choices often shape a model, and then no
  /// checkpoint fits).
  std::string mutate;
};

/// The scheduler as StudySpec::scheduler names it: "pbt:perturbation_interval=10,mutate=lr". Throws
/// a usage error for options that make no sense.
std::string pbt(const PbtOptions& options);

}  // namespace muster::tune
