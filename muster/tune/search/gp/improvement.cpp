#include "muster/tune/search/gp/improvement.h"

#include <cmath>

#include "muster/tune/search/normal.h"

namespace muster::tune {
namespace {

constexpr double kLogRootTwoPi = 0.918938533204672741780329736405617640;

double normal_pdf(double z) { return std::exp(-z * z / 2 - kLogRootTwoPi); }

// With q = 1 / z^2 and z far below 0, cdf(z) = pdf(z) / -z * (1 + cdf_tail(q)), and
// z cdf(z) + pdf(z) = pdf(z) q (1 + improvement_tail(q)).
double cdf_tail(double q) {
  return q * (-1 + q * (3 + q * (-15 + q * (105 + q * (-945 + q * 10395)))));
}
double improvement_tail(double q) {
  return q * (-3 + q * (15 + q * (-105 + q * (945 + q * (-10395 + q * 135135)))));
}

}  // namespace

ValueAndSlope log_expected_improvement(double z) {
  if (z < -25) {
    const double q = 1 / (z * z), tail = improvement_tail(q);
    return {.value = -z * z / 2 - kLogRootTwoPi - 2 * std::log(-z) + std::log1p(tail),
            .slope = -z * (1 + cdf_tail(q)) / (1 + tail)};
  }
  const double cdf = normal_cdf(z), improvement = z * cdf + normal_pdf(z);
  return {.value = std::log(improvement), .slope = cdf / improvement};
}

ValueAndSlope log_normal_cdf(double z) {
  double value = 0;
  if (z < -25)
    value = -z * z / 2 - kLogRootTwoPi - std::log(-z) + std::log1p(cdf_tail(1 / (z * z)));
  else if (z < 1)
    value = std::log(normal_cdf(z));
  else
    value = std::log1p(-normal_cdf(-z));
  return {.value = value, .slope = std::exp(-z * z / 2 - kLogRootTwoPi - value)};
}

}  // namespace muster::tune
