#include "muster/tune/space/unit_axis.h"

#include <algorithm>
#include <cmath>

#include "muster/tune/space/distribution.h"

namespace muster::tune {
namespace {

constexpr double kNormalReach = 3;  // standard deviations on either side of the mean

/// A straight axis between two ends, or one that is straight in the logarithm.
struct Line {
  double low, high;
  bool log;

  double place(double number) const {
    const double from = at(low), to = at(high);
    return to > from ? (at(number) - from) / (to - from) : 0.5;
  }
  double number(double place) const {
    const double here = at(low) + place * (at(high) - at(low));
    return log ? std::exp(here) : here;
  }
  double at(double number) const { return log ? std::log(number) : number; }
};

// Half a step more at each end gives each number of a step an equal part of the axis.
Line axis_line(const FloatDistribution& d) {
  return {d.low - d.step / 2, d.high + d.step / 2, d.log};
}
Line axis_line(const IntDistribution& d) {
  const double half = static_cast<double>(d.step) / 2;
  return {static_cast<double>(d.low) - half, static_cast<double>(d.high) + half, d.log};
}
Line axis_line(const NormalDistribution& d) {
  return {d.mean - kNormalReach * d.sd, d.mean + kNormalReach * d.sd, false};
}
Line axis_line(const CategoricalDistribution& d) {
  return {-0.5, static_cast<double>(d.choices.size()) - 0.5, false};
}

double snapped(const FloatDistribution& d, double number) {
  if (d.step <= 0) return std::clamp(number, d.low, std::nextafter(d.high, d.low));
  return std::clamp(multiple_of(d.step, std::nearbyint(number / d.step)), d.low, d.high);
}
double snapped(const IntDistribution& d, double number) {
  const auto low = static_cast<double>(d.low), step = static_cast<double>(d.step);
  const double steps = std::floor((static_cast<double>(d.high) - low) / step);
  return low + step * std::clamp(std::nearbyint((number - low) / step), 0.0, steps);
}
double snapped(const NormalDistribution& d, double number) {
  return d.step > 0 ? multiple_of(d.step, std::nearbyint(number / d.step)) : number;
}
double snapped(const CategoricalDistribution& d, double number) {
  return std::clamp(std::nearbyint(number), 0.0, static_cast<double>(d.choices.size() - 1));
}

double step_of(const IntDistribution& d) { return static_cast<double>(d.step); }
double step_of(const CategoricalDistribution& /*d*/) { return 1; }
double step_of(const auto& d) { return d.step; }

}  // namespace

double to_unit(const Distribution& distribution, double number) {
  return std::visit([&](const auto& d) { return axis_line(d).place(number); }, distribution);
}

double from_unit(const Distribution& distribution, double place) {
  if (!std::holds_alternative<NormalDistribution>(distribution))
    place = std::clamp(place, 0.0, 1.0);
  return std::visit([&](const auto& d) { return snapped(d, axis_line(d).number(place)); },
                    distribution);
}

double nearest_number(const Distribution& distribution, double number) {
  return std::visit([&](const auto& d) { return snapped(d, number); }, distribution);
}

double shifted(const Distribution& distribution, double number, int64_t steps) {
  return std::visit(
      [&](const auto& d) {
        if (step_of(d) <= 0) return number;
        return snapped(d, number + static_cast<double>(steps) * step_of(d));
      },
      distribution);
}

}  // namespace muster::tune
