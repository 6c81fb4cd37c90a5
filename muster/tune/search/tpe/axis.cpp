#include "muster/tune/search/tpe/axis.h"

#include <algorithm>
#include <cmath>

#include "muster/tune/space/unit_axis.h"

namespace muster::tune {
namespace {

constexpr double kParzenNormalReach = 3;  // standard deviations on either side of the mean

/// An axis from the lowest to the highest number.
ParzenAxis numeric_axis(double low, double high, double step, bool log) {
  ParzenAxis axis{
      .kind = step > 0 ? ParzenAxis::kStepped : ParzenAxis::kContinuous, .log = log, .step = step};
  axis.low = low - step / 2, axis.high = high + step / 2;
  if (log) axis.low = std::log(axis.low), axis.high = std::log(axis.high);
  axis.prior_centre = 0.5 * (axis.low + axis.high), axis.prior_width = axis.range();
  return axis;
}

ParzenAxis axis_from(const FloatDistribution& d) {
  return numeric_axis(d.low, d.high, d.step, d.log);
}
ParzenAxis axis_from(const IntDistribution& d) {
  const int64_t highest = d.low + (d.high - d.low) / d.step * d.step;
  return numeric_axis(
      static_cast<double>(d.low), static_cast<double>(highest), static_cast<double>(d.step), d.log);
}
ParzenAxis axis_from(const CategoricalDistribution& d) {
  return {.kind = ParzenAxis::kCategory, .choices = static_cast<double>(d.choices.size())};
}
ParzenAxis axis_from(const NormalDistribution& d) {
  const double reach = kParzenNormalReach * d.sd;
  return {.kind = d.step > 0 ? ParzenAxis::kStepped : ParzenAxis::kContinuous,
          .bounded = false,
          .low = d.mean - reach,
          .high = d.mean + reach,
          .prior_centre = d.mean,
          .prior_width = d.sd,
          .step = d.step};
}

bool is_single(const FloatDistribution& d) { return !(d.low < d.high); }
bool is_single(const IntDistribution& d) { return d.high - d.low < d.step; }
bool is_single(const CategoricalDistribution& d) { return d.choices.size() < 2; }
bool is_single(const NormalDistribution& d) { return !(d.sd > 0); }

}  // namespace

double ParzenAxis::place(double number) const {
  const double at = log ? std::log(number) : number;
  return bounded && kind != kCategory ? std::clamp(at, low, high) : at;
}

double ParzenAxis::number(double place) const {
  const double at = log ? std::exp(place) : place;
  if (kind == kStepped) return shifted(whole, at, 0);
  const auto* d = std::get_if<FloatDistribution>(&whole);
  return d == nullptr ? at : std::clamp(at, d->low, std::nextafter(d->high, d->low));
}

double ParzenAxis::left(double number) const {
  return log ? std::log(number - step / 2) : number - step / 2;
}

double ParzenAxis::right(double number) const {
  return log ? std::log(number + step / 2) : number + step / 2;
}

ParzenAxis parzen_axis(const Distribution& distribution) {
  ParzenAxis axis = std::visit([](const auto& d) { return axis_from(d); }, distribution);
  axis.whole = distribution;
  return axis;
}

bool has_one_value(const Distribution& distribution) {
  return std::visit([](const auto& d) { return is_single(d); }, distribution);
}

}  // namespace muster::tune
