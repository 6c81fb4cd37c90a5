#include "muster/tune/search/gp/maximise.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "muster/base/philox.h"
#include "muster/tune/search/gp/ascent.h"
#include "muster/tune/search/gp/sobol.h"

namespace muster::tune {
namespace {

constexpr int kMaxRounds = 30;
constexpr double kFewPlaces = 16;     // are all tried
constexpr double kSmoothPlaces = 64;  // more are as good as continuous
constexpr size_t kTries = 16;         // of one search along an axis with more than a few
constexpr uint32_t kRouletteStream = 0x6B01;

double roulette_number(const MaximiseOptions& options, uint32_t i, uint32_t kind) {
  const auto bits = philox4x32_10(
      {i, kind, options.stream, kRouletteStream},
      {static_cast<uint32_t>(options.seed), static_cast<uint32_t>(options.seed >> 32)});
  return (static_cast<double>(bits[0]) + 0.5) * 0x1p-32;
}

}  // namespace

AcquisitionSearch::AcquisitionSearch(const AcquisitionFunction& acquisition,
                                     const GpAxes& axes,
                                     const Point& fixed,
                                     double last_column,
                                     std::span<const double> weights)
    : acquisition_(acquisition),
      axes_(axes),
      fixed_(fixed),
      last_column_(last_column),
      weights_(weights) {
  for (size_t a = 0; a < axes.axes().size(); ++a) {
    if (std::isnan(fixed[axes.axes()[a].dimension])) open_.push_back(a);
  }
}

bool AcquisitionSearch::is_smooth(size_t axis) const {
  const GpAxis& a = axes_.axes()[axis];
  return a.kind == GpAxis::kContinuous || (a.kind == GpAxis::kStepped && a.places > kSmoothPlaces);
}

std::vector<double> AcquisitionSearch::columns_of(std::span<const double> places) const {
  std::vector<double> out = axes_.columns_of_candidate(places, fixed_);
  out.push_back(last_column_);
  return out;
}

void AcquisitionSearch::evaluate(std::span<GpCandidate> candidates) const {
  PointSet points(axes_.columns() + 1, candidates.size());
  for (const GpCandidate& candidate : candidates) points.append(columns_of(candidate.places));
  const std::vector<double> values = acquisition_.values(points);
  for (size_t i = 0; i < values.size(); ++i) {
    const bool is_number = std::isfinite(values[i]);
    candidates[i].value = is_number ? values[i] : -std::numeric_limits<double>::max();
  }
}

std::vector<GpCandidate> AcquisitionSearch::sampled(const MaximiseOptions& options) const {
  std::vector<double> start(axes_.axes().size());
  for (size_t a = 0; a < start.size(); ++a) {
    const double number = fixed_[axes_.axes()[a].dimension];
    if (!std::isnan(number)) start[a] = axes_.place_of(axes_.axes()[a], number);
  }
  std::vector<GpCandidate> out(options.samples, {.places = start});
  const size_t regular = std::min(open_.size(), SobolSequence::kMaxDimensions);
  const SobolSequence sequence(regular, options.seed, options.stream);
  const std::vector<double> columns = sequence.columns(options.samples);
  for (size_t i = 0; i < open_.size(); ++i) {
    const size_t a = open_[i];
    for (size_t s = 0; s < out.size(); ++s) {
      // Axes beyond the sequence's are drawn.
      const double u =
          i < regular
              ? columns[i * options.samples + s]
              : roulette_number(options, static_cast<uint32_t>(s), static_cast<uint32_t>(i) + 1);
      out[s].places[a] = axes_.snapped(axes_.axes()[a], u);
    }
  }
  evaluate(out);
  return out;
}

/// The best one, and others with chances in proportion to what they promise.
std::vector<size_t> AcquisitionSearch::picked(std::span<const GpCandidate> samples,
                                              size_t count,
                                              const MaximiseOptions& options) const {
  const auto best = std::ranges::max_element(samples, {}, &GpCandidate::value);
  std::vector<size_t> out = {static_cast<size_t>(best - samples.begin())};
  std::vector<double> chances;
  for (const GpCandidate& sample : samples) chances.push_back(std::exp(sample.value - best->value));
  chances[out[0]] = 0;
  for (uint32_t i = 0; out.size() < count; ++i) {
    const double sum = std::accumulate(chances.begin(), chances.end(), 0.0);
    if (!(sum > 0)) break;
    double left = roulette_number(options, i, 0) * sum;
    size_t at = 0;
    for (size_t s = 0; s < chances.size(); ++s) {
      if (chances[s] <= 0) continue;
      at = s;
      left -= chances[s];
      if (left <= 0) break;
    }
    chances[at] = 0;
    out.push_back(at);
  }
  return out;
}

std::vector<GpCandidate> AcquisitionSearch::run(std::span<const std::vector<double>> incumbents,
                                                const MaximiseOptions& options) const {
  std::vector<GpCandidate> samples = sampled(options);
  const size_t kept = std::min(incumbents.size(), options.starts - 1);
  std::vector<GpCandidate> out;
  for (const size_t i : picked(samples, options.starts - kept, options)) out.push_back(samples[i]);
  for (size_t i = 0; i < kept; ++i) {
    GpCandidate candidate = samples.front();  // for what is fixed
    for (const size_t a : open_) candidate.places[a] = incumbents[i][a];
    out.push_back(std::move(candidate));
  }
  evaluate(out);
  climb(out);
  std::ranges::stable_sort(out, std::greater{}, &GpCandidate::value);
  std::ranges::stable_sort(samples, std::greater{}, &GpCandidate::value);
  out.insert(out.end(), samples.begin(), samples.end());
  return out;
}

void AcquisitionSearch::climb(std::span<GpCandidate> candidates) const {
  std::vector<GpCandidate*> active;
  for (GpCandidate& candidate : candidates) active.push_back(&candidate);
  for (int round = 0; round < kMaxRounds && !active.empty(); ++round) {
    ascend(active);
    std::vector<bool> changed(active.size(), false);
    for (const size_t a : open_) {
      if (axes_.axes()[a].kind != GpAxis::kContinuous) search_along(a, active, changed);
    }
    std::vector<GpCandidate*> rest;
    for (size_t i = 0; i < active.size(); ++i)
      if (changed[i]) rest.push_back(active[i]);
    active = std::move(rest);
  }
}

/// L-BFGS over the axes that are continuous, or nearly, and apply; with lengths as the kernel sees
/// them, so that no axis is steeper than another.
void AcquisitionSearch::ascend(std::span<GpCandidate*> candidates) const {
  struct Climber {
    GpCandidate* candidate;
    std::vector<size_t> axes;
    std::vector<double> columns;
    BoxAscent ascent;
  };
  std::vector<Climber> climbers;
  for (GpCandidate* candidate : candidates) {
    const std::vector<bool> applies = axes_.applying(candidate->places, fixed_);
    std::vector<size_t> axes;
    std::vector<double> start, high;
    for (const size_t a : open_) {
      if (!is_smooth(a) || !applies[a]) continue;
      const double length = std::sqrt(weights_[a]);
      axes.push_back(a);
      start.push_back(std::clamp(candidate->places[a], 0.0, 1.0) * length);
      high.push_back(length);
    }
    std::vector<double> low(axes.size(), 0.0);
    climbers.push_back({candidate,
                        std::move(axes),
                        columns_of(candidate->places),
                        BoxAscent(std::move(start), std::move(low), std::move(high))});
  }
  const auto put = [&](Climber& climber, std::span<const double> at, std::span<double> to) {
    for (size_t i = 0; i < at.size(); ++i) {
      const size_t a = climber.axes[i];
      to[a] = std::min(1.0, at[i] / std::sqrt(weights_[a]));
    }
  };
  const size_t width = axes_.columns() + 1;
  std::vector<double> gradients;
  for (;;) {
    PointSet points(width, climbers.size());
    std::vector<Climber*> asked;
    for (Climber& climber : climbers) {
      if (climber.ascent.done()) continue;
      put(climber, climber.ascent.point(), climber.columns);
      points.append(climber.columns);
      asked.push_back(&climber);
    }
    if (asked.empty()) break;
    const std::vector<double> values = acquisition_.values(points, gradients);
    for (size_t i = 0; i < asked.size(); ++i) {
      std::vector<double> gradient;
      for (const size_t a : asked[i]->axes)
        gradient.push_back(gradients[i * width + a] / std::sqrt(weights_[a]));
      asked[i]->ascent.tell(values[i], gradient);
    }
  }
  std::vector<GpCandidate> ends;
  for (Climber& climber : climbers) {
    GpCandidate end = *climber.candidate;
    put(climber, climber.ascent.best(), end.places);
    for (const size_t a : climber.axes)
      end.places[a] = axes_.snapped(axes_.axes()[a], end.places[a]);
    ends.push_back(std::move(end));
  }
  evaluate(ends);  // on the steps, and with the conditions that hold there
  for (size_t i = 0; i < ends.size(); ++i)
    if (ends[i].value > candidates[i]->value) *candidates[i] = std::move(ends[i]);
}

/// Of an axis with few places all but this one; else those from place - reach to place + reach, or
/// the nearest on both sides if reach is 0.
std::vector<double> AcquisitionSearch::places_to_try(size_t axis,
                                                     double place,
                                                     double reach) const {
  const GpAxis& a = axes_.axes()[axis];
  std::vector<double> out;
  const auto add = [&](double other) {
    if (other != place && std::ranges::find(out, other) == out.end()) out.push_back(other);
  };
  if (a.kind == GpAxis::kCategory) {
    for (double i = 0; i < a.places; ++i) add(i);
  } else if (a.places <= kFewPlaces) {
    const double first = axes_.snapped(a, 0);
    for (int i = 0; i < static_cast<int>(a.places); ++i) add(axes_.neighbour(a, first, i));
  } else if (reach == 0) {
    for (const int steps : {-2, -1, 1, 2}) add(axes_.neighbour(a, place, steps));
  } else {
    for (size_t i = 0; i < kTries; ++i) {
      const double side = 2 * static_cast<double>(i) / static_cast<double>(kTries - 1) - 1;
      add(axes_.snapped(a, std::clamp(place + side * reach, 0.0, 1.0)));
    }
  }
  return out;
}

bool AcquisitionSearch::try_places(size_t axis,
                                   std::span<GpCandidate*> candidates,
                                   double reach,
                                   std::vector<bool>& changed) const {
  std::vector<GpCandidate> tries;
  std::vector<size_t> whose;
  for (size_t i = 0; i < candidates.size(); ++i) {
    for (const double place : places_to_try(axis, candidates[i]->places[axis], reach)) {
      tries.push_back(*candidates[i]);
      tries.back().places[axis] = place;
      whose.push_back(i);
    }
  }
  evaluate(tries);
  bool any = false;
  for (size_t t = 0; t < tries.size(); ++t) {
    if (tries[t].value <= candidates[whose[t]]->value) continue;
    *candidates[whose[t]] = tries[t];
    changed[whose[t]] = any = true;
  }
  return any;
}

void AcquisitionSearch::search_along(size_t axis,
                                     std::span<GpCandidate*> candidates,
                                     std::vector<bool>& changed) const {
  const GpAxis& a = axes_.axes()[axis];
  if (a.kind == GpAxis::kCategory || a.places <= kFewPlaces) {
    try_places(axis, candidates, 0, changed);
    return;
  }
  if (!is_smooth(axis)) {
    for (double reach = 1; reach * a.places > 1; reach /= static_cast<double>(kTries) / 2)
      try_places(axis, candidates, reach, changed);
  }
  for (int i = 0; i < kMaxRounds && try_places(axis, candidates, 0, changed); ++i) {
  }
}

}  // namespace muster::tune
