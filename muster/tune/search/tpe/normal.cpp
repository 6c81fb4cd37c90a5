#include "muster/tune/search/tpe/normal.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "muster/tune/search/normal.h"

namespace muster::tune {
namespace {

constexpr double kSqrtHalf = std::numbers::sqrt2 / 2;

/// Φ(-distance) without the loss of digits that 1 - Φ has.
double tail(double distance) { return 0.5 * std::erfc(distance * kSqrtHalf); }

}  // namespace

double log_central_mass(double low, double high) {
  return std::log(0.5 * (std::erf(high * kSqrtHalf) - std::erf(low * kSqrtHalf)));
}

double truncated_normal_quantile(double u, double centre, double width, double low, double high) {
  const double left = tail((centre - low) / width), right = tail((high - centre) / width);
  const double mass = 1 - left - right;
  // From the nearer end, so that p keeps its digits.
  const double p = left + u * mass;
  const double z = p <= 0.5 ? inverse_normal_cdf(p) : -inverse_normal_cdf(right + (1 - u) * mass);
  return std::clamp(centre + width * z, low, high);
}

}  // namespace muster::tune
