// The margin of CMA-ES: no value of a discrete axis beside the mean's own becomes so unlikely that
// it is never drawn again. Raw points stay continuous; what is tried is the value nearest to them,
// after the axis was stretched around the mean by A.
#include <algorithm>
#include <cmath>

#include "muster/tune/search/cma/cma.h"
#include "muster/tune/search/normal.h"

namespace muster::tune {
namespace {

/// sqrt of the chi-square quantile (one degree of freedom) of 1 - 2 p, with the rounding that
/// 1 - 2 p has: how many deviations from the mean a tail of p begins.
double deviations_to_tail(double p) {
  const double q = 1 - 2 * p;
  return -inverse_normal_cdf((1 - q) / 2);
}

constexpr double kLeastTail = 1e-10;

}  // namespace

double Cma::level(size_t i, int64_t index) const {
  const double step = axes_[i].low + axes_[i].step - axes_[i].low;
  return axes_[i].low + static_cast<double>(index) * step;
}

double Cma::limit(size_t i, int64_t index) const {
  return (level(i, index) + level(i, index + 1)) / 2;
}

int64_t Cma::nearest(size_t i, double x) const {
  const CmaAxis& axis = axes_[i];
  const int64_t last = levels_[i] - 1;
  const double step = axis.low + axis.step - axis.low;
  const double place = std::floor((x - axis.low) / step + 0.5);
  auto index = static_cast<int64_t>(std::clamp(place, 0.0, static_cast<double>(last)));
  if (index > 0 && x <= limit(i, index - 1)) --index;
  if (index < last && x > limit(i, index)) ++index;
  return index;
}

std::vector<double> Cma::tried(std::vector<double> raw) const {
  for (size_t i = 0; i < raw.size(); ++i) {
    if (levels_[i] == 0) continue;
    const double stretched = (raw[i] - mean_[i]) * stretch_[i] + mean_[i];
    raw[i] = level(i, nearest(i, stretched));
  }
  return raw;
}

void Cma::keep_margin() {
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (levels_[i] > 0) keep_margin(i, covariance_[i * axes_.size() + i]);
  }
}

/// Equations 8 to 19 of the paper, as cmaes orders them.
void Cma::keep_margin(size_t i, double c_diagonal) {
  double& mean = mean_[i];
  const double deviation = sigma_ * std::sqrt(c_diagonal);
  if (!(deviation > 0) || !std::isfinite(mean)) return;  // is_spent()
  const int64_t here = nearest(i, mean), last_limit = levels_[i] - 2;
  const double low_limit = limit(i, std::clamp<int64_t>(here - 1, 0, last_limit));
  const double high_limit = limit(i, std::clamp<int64_t>(here, 0, last_limit));
  double low = normal_cdf((low_limit - mean) / (stretch_[i] * deviation));
  double high = 1 - normal_cdf((high_limit - mean) / (stretch_[i] * deviation));
  const double middle = 1 - (low + high);

  if (std::max(low, high) > 0.5) {  // at an end: the mean goes no farther from its only limit
    if (std::min(low, high) >= margin_) return;
    const double side = mean > high_limit ? 1 : mean < high_limit ? -1 : 0;
    mean = high_limit + side * stretch_[i] * deviation * deviations_to_tail(margin_);
    return;
  }
  if (low_limit == high_limit) return;  // two values, each half: no stretch would do better
  low = std::max(low, margin_ / 2);
  high = std::max(high, margin_ / 2);
  const double excess = 1 - low - high - middle;
  const double room = low + middle + high - 3 * margin_ / 2;
  const double share = excess / room;
  const auto corrected = [&](double tail) {
    return std::clamp(tail + share * (tail - margin_ / 2), kLeastTail, 0.5 - kLeastTail);
  };
  const double down = deviations_to_tail(corrected(low)), up = deviations_to_tail(corrected(high));
  stretch_[i] = (high_limit - low_limit) / ((down + up) * deviation);
  mean = (low_limit * up + high_limit * down) / (down + up);
}

}  // namespace muster::tune
