#include "muster/tune/search/gp/axes.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/base/overloaded.h"
#include "muster/tune/space/unit_axis.h"

namespace muster::tune {
namespace {

constexpr double kMiddle = 0.5, kNoCategory = -1;
constexpr size_t kMostKept = 4096;
constexpr double kGpNan = std::numeric_limits<double>::quiet_NaN();

/// How many values a distribution has; 0: no end of them.
double places_of(const Distribution& distribution) {
  return std::visit(
      Overloaded{
          [](const FloatDistribution& d) {
            if (d.low == d.high) return 1.0;
            return d.step > 0 ? std::floor((d.high - d.low) / d.step + 0.5) + 1 : 0.0;
          },
          [](const IntDistribution& d) {
            return std::floor((static_cast<double>(d.high) - static_cast<double>(d.low)) /
                              static_cast<double>(d.step)) +
                   1;
          },
          [](const CategoricalDistribution& d) { return static_cast<double>(d.choices.size()); },
          [](const NormalDistribution& d) {
            if (d.sd == 0) return 1.0;
            return d.step > 0 ? std::floor(6 * d.sd / d.step) + 1 : 0.0;
          }},
      distribution);
}

}  // namespace

GpAxes::GpAxes(const Space& space)
    : space_(space),
      deciding_(space.deciding_dimensions()),
      single_(space.dimensions().size(), kGpNan) {
  const auto dimensions = space.dimensions();
  for (size_t d = 0; d < dimensions.size(); ++d) {
    const double places = places_of(dimensions[d].distribution);
    const std::string& when = space.parameters()[dimensions[d].parameter].when;
    if (!when.empty()) {
      const auto same = std::ranges::find(conditions_, when, &Condition::when);
      if (same == conditions_.end())
        conditions_.push_back({when, {d}});
      else
        same->dimensions.push_back(d);
    }
    if (places == 1) {
      single_[d] = from_unit(dimensions[d].distribution, kMiddle);
      continue;
    }
    const bool category =
        std::holds_alternative<CategoricalDistribution>(dimensions[d].distribution);
    axes_.push_back({.kind = category     ? GpAxis::kCategory
                             : places > 0 ? GpAxis::kStepped
                                          : GpAxis::kContinuous,
                     .dimension = d,
                     .places = places > 0 ? places : std::numeric_limits<double>::infinity()});
  }
  keeps_present_ = std::ranges::all_of(
      deciding_, [&](size_t d) { return places_of(dimensions[d].distribution) > 0; });
}

std::vector<uint8_t> GpAxes::hamming() const {
  std::vector<uint8_t> out;
  for (const GpAxis& axis : axes_) out.push_back(axis.kind == GpAxis::kCategory ? 1 : 0);
  out.resize(columns(), 1);
  return out;
}

double GpAxes::place_of(const GpAxis& axis, double number) const {
  if (axis.kind == GpAxis::kCategory) return number;
  return to_unit(space_.dimensions()[axis.dimension].distribution, number);
}

double GpAxes::neighbour(const GpAxis& axis, double place, int steps) const {
  const Distribution& distribution = space_.dimensions()[axis.dimension].distribution;
  return to_unit(distribution, shifted(distribution, from_unit(distribution, place), steps));
}

double GpAxes::snapped(const GpAxis& axis, double u) const {
  if (axis.kind == GpAxis::kContinuous) return u;
  if (axis.kind == GpAxis::kCategory)
    return std::clamp(std::floor(u * axis.places), 0.0, axis.places - 1);
  const Distribution& distribution = space_.dimensions()[axis.dimension].distribution;
  return to_unit(distribution, from_unit(distribution, u));
}

std::vector<double> GpAxes::columns_of(const Point& point) const {
  std::vector<double> out;
  for (const GpAxis& axis : axes_) {
    const double number = point[axis.dimension];
    if (std::isnan(number))
      out.push_back(axis.kind == GpAxis::kCategory ? kNoCategory : kMiddle);
    else
      out.push_back(place_of(axis, number));
  }
  for (const Condition& condition : conditions_) {
    const bool holds =
        std::ranges::any_of(condition.dimensions, [&](size_t d) { return !std::isnan(point[d]); });
    out.push_back(holds ? 1 : 0);
  }
  return out;
}

std::vector<bool> GpAxes::present(std::span<const double> candidate, const Point& fixed) const {
  const Point point = point_of(candidate, fixed);
  std::vector<double> key;
  if (keeps_present_) {
    for (const size_t d : deciding_) key.push_back(point[d]);
    const auto known = present_.find(key);
    if (known != present_.end()) return known->second;
  }
  std::vector<bool> out;
  for (const double x : space_.with_conditions(point)) out.push_back(!std::isnan(x));
  if (keeps_present_) {
    if (present_.size() >= kMostKept) present_.clear();
    present_.emplace(std::move(key), out);
  }
  return out;
}

std::vector<double> GpAxes::columns_of_candidate(std::span<const double> candidate,
                                                 const Point& fixed) const {
  std::vector<double> out(candidate.begin(), candidate.end());
  if (!has_conditions()) return out;
  const std::vector<bool> applies = present(candidate, fixed);
  for (size_t a = 0; a < axes_.size(); ++a) {
    if (!applies[axes_[a].dimension])
      out[a] = axes_[a].kind == GpAxis::kCategory ? kNoCategory : kMiddle;
  }
  for (const Condition& condition : conditions_) {
    const bool holds =
        std::ranges::any_of(condition.dimensions, [&](size_t d) { return applies[d]; });
    out.push_back(holds ? 1 : 0);
  }
  return out;
}

std::vector<bool> GpAxes::applying(std::span<const double> candidate, const Point& fixed) const {
  std::vector<bool> out(axes_.size(), true);
  if (!has_conditions()) return out;
  const std::vector<bool> applies = present(candidate, fixed);
  for (size_t a = 0; a < axes_.size(); ++a) out[a] = applies[axes_[a].dimension];
  return out;
}

Point GpAxes::point_of(std::span<const double> candidate, const Point& fixed) const {
  Point out = single_;
  for (size_t a = 0; a < axes_.size(); ++a) {
    const Distribution& distribution = space_.dimensions()[axes_[a].dimension].distribution;
    out[axes_[a].dimension] =
        axes_[a].kind == GpAxis::kCategory ? candidate[a] : from_unit(distribution, candidate[a]);
  }
  for (size_t d = 0; d < out.size(); ++d) {
    if (!std::isnan(fixed[d])) out[d] = fixed[d];
  }
  return out;
}

}  // namespace muster::tune
