// The standard normal distribution, and the expected improvement, where doubles would run out.
#pragma once

namespace muster::tune {

/// A function's value and derivative.
struct ValueAndSlope {
  double value, slope;
};

/// log E max(0, z + N(0, 1)). Source: Ament and others 2023, "Unexpected improvements to expected
/// improvement", eq. 9; below -25, where z cdf(z) + pdf(z) loses its digits, by the asymptotic
/// series of the same function.
ValueAndSlope log_expected_improvement(double z);

/// log P(N(0, 1) < z).
ValueAndSlope log_normal_cdf(double z);

}  // namespace muster::tune
