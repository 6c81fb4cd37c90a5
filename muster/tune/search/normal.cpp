#include "muster/tune/search/normal.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace muster::tune {
namespace {

/// c[0] x^(n-1) + … + c[n-1]
template <int n>
double polynomial(const double (&c)[n], double x) {
  double sum = c[0];
  for (int i = 1; i < n; ++i) sum = sum * x + c[i];
  return sum;
}

/// For p <= 1/2, with a relative error of about 1e-9.
double rough_quantile(double p) {
  static constexpr double kTop[] = {-3.969683028665376e+01,
                                    2.209460984245205e+02,
                                    -2.759285104469687e+02,
                                    1.383577518672690e+02,
                                    -3.066479806614716e+01,
                                    2.506628277459239e+00};
  static constexpr double kBottom[] = {-5.447609879822406e+01,
                                       1.615858368580409e+02,
                                       -1.556989798598866e+02,
                                       6.680131188771972e+01,
                                       -1.328068155288572e+01,
                                       1};
  static constexpr double kTailTop[] = {-7.784894002430293e-03,
                                        -3.223964580411365e-01,
                                        -2.400758277161838e+00,
                                        -2.549732539343734e+00,
                                        4.374664141464968e+00,
                                        2.938163982698783e+00};
  static constexpr double kTailBottom[] = {7.784695709041462e-03,
                                           3.224671290700398e-01,
                                           2.445134137142996e+00,
                                           3.754408661907416e+00,
                                           1};
  if (p < 0.02425) {
    const double q = std::sqrt(-2 * std::log(p));
    return polynomial(kTailTop, q) / polynomial(kTailBottom, q);
  }
  const double q = p - 0.5;
  return q * polynomial(kTop, q * q) / polynomial(kBottom, q * q);
}

}  // namespace

double normal_cdf(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }

double inverse_normal_cdf(double p) {
  if (p > 0.5) return -inverse_normal_cdf(1 - p);
  if (!(p > 0)) {
    return p == 0 ? -std::numeric_limits<double>::infinity()
                  : std::numeric_limits<double>::quiet_NaN();
  }
  const double x = rough_quantile(p);
  const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
  const double step = (normal_cdf(x) - p) / density;
  return x - step / (1 + x * step / 2);
}

}  // namespace muster::tune
