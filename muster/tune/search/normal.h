// The normal distribution and its inverse.
#pragma once

namespace muster::tune {

/// P(Z <= x).
double normal_cdf(double x);

/// The x with P(Z <= x) = p, to 16 digits; infinities for 0 and 1, NaN outside. Source: Wichura 1988,
/// "Algorithm AS 241: the percentage points of the normal distribution", PPND16.
double inverse_normal_cdf(double p);

}  // namespace muster::tune
