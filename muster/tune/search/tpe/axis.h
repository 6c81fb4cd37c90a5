// A dimension as TPE's kernels see it.
#pragma once

#include <cstddef>

#include "muster/tune/space/domain.h"

namespace muster::tune {

/// Numbers are those of Point; places are where kernels have their centres: the number or its
/// logarithm. Source: optuna 5.0.0, samplers/_tpe/parzen_estimator.py. Two kinds of dimension are
/// not in Optuna: a step on a logarithmic float, which is treated as that of an integer, and normal
/// distributions, whose kernels have no bounds and whose prior is the distribution itself; their
/// widths are measured against mean ± 3 sd.
struct ParzenAxis {
  enum Kind { kContinuous, kStepped, kCategory } kind = kContinuous;
  bool log = false;
  bool bounded = true;
  double low = 0, high = 1;  ///< places; with a step, half of one beyond the outermost numbers
  double prior_centre = 0.5, prior_width = 1;
  double step = 0;     ///< of numbers; 0: none
  double choices = 0;  ///< of a category
  Distribution whole;  ///< to come back from a place

  double range() const { return high - low; }
  double place(double number) const;  ///< inside the bounds
  double number(double place) const;  ///< the nearest number of the distribution
  /// Places half a step to the left and right of a number.
  double left(double number) const;
  double right(double number) const;
};

ParzenAxis parzen_axis(const Distribution& distribution);

/// True if there is nothing to choose.
bool has_one_value(const Distribution& distribution);

}  // namespace muster::tune
