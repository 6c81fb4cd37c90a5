// The normal distribution and its inverse.
#pragma once

namespace muster::tune {

/// P(Z <= x).
double normal_cdf(double x);

/// The x with P(Z <= x) = p, to the last bits of a double also far out; infinities for 0 and 1.
/// Source: Acklam's rational approximation, then one step of Halley's method.
double inverse_normal_cdf(double p);

}  // namespace muster::tune
