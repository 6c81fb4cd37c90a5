// The axis of a chart: which range it shows, where its ticks are, and what they say.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace muster::track {

/// A range of numbers mapped to 0 … 1, by the number itself or by its logarithm. lo < hi.
struct Axis {
  double lo = 0;
  double hi = 1;
  bool log = false;
  std::vector<double> ticks;        ///< rising, within [lo, hi]
  std::vector<std::string> labels;  ///< one per tick

  /// 0 at lo, 1 at hi; beyond for values outside, infinite ones too.
  double place(double value) const;
};

/// Multiples of 1, 2 or 5 · 10^k within [lo, hi]: the finest such step with at most `most` ticks.
/// Finite lo < hi; most >= 2. Pure.
std::vector<double> nice_ticks(double lo, double hi, int most);

/// Labels of one axis in one style: "0.25", "20k", "5e-5". Pure.
std::vector<std::string> tick_labels(std::span<const double> ticks);

/// A number to read off: four significant digits, "0.4123", "12.35k", "5.1e-05", "NaN". Pure.
std::string readable(double value);

/// An axis whose ends are ticks. Zero is an end when the values come near it; all values equal get
/// room around them. An end beyond all doubles is the last of them, and no tick. Finite lo <= hi.
Axis linear_axis(double lo, double hi, int most_ticks);

/// The same for shares, values in 0 … 1: no end is beyond.
Axis share_axis(double lo, double hi, int most_ticks);

/// An axis that shows exactly [lo, hi], or at least one more on each side if they are equal.
/// |lo|, |hi| < 1e300.
Axis exact_axis(double lo, double hi, int most_ticks);

/// Ends at 1, 2 or 5 · 10^k, ticks at powers of ten. 1e-290 < lo < hi < 1e290, at least a decade
/// apart.
Axis log_axis(double lo, double hi, int most_ticks);

}  // namespace muster::track
