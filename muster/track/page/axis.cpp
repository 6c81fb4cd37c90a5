#include "muster/track/page/axis.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

#include "muster/base/text.h"

namespace muster::track {
namespace {

constexpr std::array<double, 3> kMantissas = {1, 2, 5};

/// 10^exponent with no more error than one rounding.
double power_of_ten(int exponent) { return std::pow(10.0, exponent); }

/// mantissa · 10^exponent: dividing keeps 0.2 at the double nearest to 0.2.
double scaled(double mantissa, int exponent) {
  return exponent < 0 ? mantissa / power_of_ten(-exponent) : mantissa * power_of_ten(exponent);
}

/// A step mantissa · 10^exponent.
struct Step {
  double mantissa = 1;
  int exponent = 0;

  double size() const { return scaled(mantissa, exponent); }
  double at(double index) const { return scaled(mantissa * index, exponent); }
};

/// A part in 1e9 of a step, so that 0.3 counts as a multiple of 0.1.
constexpr double kSlack = 1e-9;

double first_index(double lo, const Step& step) { return std::ceil(lo / step.size() - kSlack); }
double last_index(double hi, const Step& step) { return std::floor(hi / step.size() + kSlack); }

constexpr double kLargest = std::numeric_limits<double>::max();

/// hi - lo, as far as that is a double.
double width_of(double lo, double hi) { return std::min(hi - lo, kLargest); }

double within_doubles(double number) { return std::clamp(number, -kLargest, kLargest); }

/// The finest 1-2-5 step with at most `most` multiples in [lo, hi].
Step nice_step(double lo, double hi, int most) {
  int exponent = static_cast<int>(std::floor(std::log10(width_of(lo, hi) / most))) - 1;
  for (Step last{1, exponent};; ++exponent) {
    for (const double mantissa : kMantissas) {
      const Step step{mantissa, exponent};
      if (!std::isfinite(step.size())) return last;
      last = step;
      if (step.size() > 0 && last_index(hi, step) - first_index(lo, step) + 1 <= most) return step;
    }
  }
}

constexpr double kSameShare = 1e-9;  // of their size: values that differ by less count as equal

constexpr double kSmallest = 1e-290;

bool same(double lo, double hi) {
  return hi - lo <= kSameShare * std::max(std::abs(lo), std::abs(hi));
}

std::string fixed_trimmed(double value, int digits, std::string_view unit) {
  std::string text = fixed(value, digits);
  if (text.find_first_not_of("-0.") == std::string::npos) return "0";
  return text + std::string(unit);
}

/// Digits behind the point that tell neighbours `step` apart.
int digits_for(double step) {
  for (int digits = 0; digits < 12; ++digits) {
    const double shifted = step * power_of_ten(digits);
    if (std::abs(shifted - std::round(shifted)) < 1e-6 * shifted) return digits;
  }
  return 12;
}

struct Unit {
  double size = 1;
  std::string_view text;
};

Unit unit_for(double largest) {
  if (largest >= 1e12) return {0, ""};
  if (largest >= 1e9) return {1e9, "G"};
  if (largest >= 1e6) return {1e6, "M"};
  if (largest >= 1e4) return {1e3, "k"};
  return {largest >= 1e-3 ? 1.0 : 0.0, ""};
}

void set_ticks(Axis& axis, std::vector<double> ticks) {
  axis.ticks = std::move(ticks);
  axis.labels = tick_labels(axis.ticks);
}

/// The 1-2-5 number at or below a positive value, or at or above it.
double nice_bound(double value, bool below) {
  const int exponent = static_cast<int>(std::floor(std::log10(value)));
  double best = below ? 0 : INFINITY;
  for (int at = exponent - 1; at <= exponent + 1; ++at) {
    for (const double mantissa : kMantissas) {
      const double bound = scaled(mantissa, at);
      if (below && bound <= value) best = std::max(best, bound);
      if (!below && bound >= value) best = std::min(best, bound);
    }
  }
  if (below) return best > 0 ? best : value;
  return std::min(best, kLargest);
}

}  // namespace

double Axis::place(double value) const {
  if (log) return (std::log(std::max(value, 0.0)) - std::log(lo)) / (std::log(hi) - std::log(lo));
  // Halves: the width of the range may be no double.
  return (within_doubles(value) / 2 - lo / 2) / (hi / 2 - lo / 2);
}

std::vector<double> nice_ticks(double lo, double hi, int most) {
  const Step step = nice_step(lo, hi, most);
  const double first = first_index(lo, step);
  std::vector<double> out;
  for (int i = 0; i < most && first + i <= last_index(hi, step); ++i) {
    out.push_back(std::clamp(step.at(first + i) + 0.0, lo, hi));  // + 0.0: no -0
  }
  return out;
}

std::vector<std::string> tick_labels(std::span<const double> ticks) {
  double largest = 0;
  for (const double tick : ticks) largest = std::max(largest, std::abs(tick));
  double step = largest > 0 ? largest : 1;
  for (size_t i = 1; i < ticks.size(); ++i) step = std::min(step, ticks[i] - ticks[i - 1]);
  Unit unit = unit_for(largest);
  std::string suffix(unit.text);
  if (unit.size == 0 && largest > 0) {
    const int exponent = static_cast<int>(std::floor(std::log10(largest) + kSlack));
    unit.size = power_of_ten(exponent);
    suffix = concat('e', exponent);
  }
  std::vector<std::string> out;
  const double size = unit.size == 0 ? 1 : unit.size;
  for (const double tick : ticks) {
    out.push_back(fixed_trimmed(tick / size, digits_for(step / size), suffix));
  }
  return out;
}

std::string readable(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "\u221e" : "\u2212\u221e";
  const double size = std::abs(value);
  const Unit unit = unit_for(size);
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", unit.size == 0 ? value : value / unit.size);
  return concat(text.data(), unit.text);
}

Axis linear_axis(double lo, double hi, int most_ticks) {
  if (std::max(std::abs(lo), std::abs(hi)) < kSmallest) {
    lo = 0;
    hi = 1;
  } else if (same(lo, hi)) {
    const double room = std::abs(lo) / 2;
    lo = within_doubles(lo - room);
    hi = within_doubles(hi + room);
  }
  if (lo > 0 && lo < 0.3 * hi) lo = 0;
  if (hi < 0 && hi > 0.3 * lo) hi = 0;
  const Step step = nice_step(lo, hi, most_ticks - 1);
  Axis axis{.lo = within_doubles(step.at(std::floor(lo / step.size() + kSlack))),
            .hi = within_doubles(step.at(std::ceil(hi / step.size() - kSlack)))};
  set_ticks(axis, nice_ticks(axis.lo, axis.hi, most_ticks + 1));
  return axis;
}

Axis share_axis(double lo, double hi, int most_ticks) {
  lo = std::clamp(lo, 0.0, 1.0);
  hi = std::clamp(hi, lo, 1.0);
  // Equal values get their room on the side where there is some.
  if (same(lo, hi)) {
    if (lo > 0.5)
      lo -= 0.25;
    else
      hi += 0.25;
  }
  Axis axis = linear_axis(lo, hi, most_ticks);
  axis.lo = std::max(axis.lo, 0.0);
  axis.hi = std::min(axis.hi, 1.0);
  set_ticks(axis, nice_ticks(axis.lo, axis.hi, most_ticks + 1));
  return axis;
}

Axis exact_axis(double lo, double hi, int most_ticks) {
  const double room = same(lo, hi) ? std::max(1.0, std::abs(lo) / 1000) : 0;
  Axis axis{.lo = lo - room, .hi = hi + room};
  set_ticks(axis, nice_ticks(axis.lo, axis.hi, most_ticks));
  return axis;
}

Axis log_axis(double lo, double hi, int most_ticks) {
  Axis axis{.lo = nice_bound(lo, true), .hi = nice_bound(hi, false), .log = true};
  const int first = static_cast<int>(std::ceil(std::log10(axis.lo) - kSlack));
  const int last = static_cast<int>(std::floor(std::log10(axis.hi) + kSlack));
  const int stride = (last - first) / most_ticks + 1;
  for (int exponent = first; exponent <= last; exponent += stride) {
    axis.ticks.push_back(std::clamp(scaled(1, exponent), axis.lo, axis.hi));
    const bool plain = exponent >= -3 && exponent <= 3;
    axis.labels.push_back(plain ? shortest(scaled(1, exponent)) : concat("1e", exponent));
  }
  return axis;
}

}  // namespace muster::track
