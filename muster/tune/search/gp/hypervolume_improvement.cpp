#include "muster/tune/search/gp/hypervolume_improvement.h"

#include <algorithm>
#include <cmath>

#include "muster/tune/search/gp/improvement.h"

namespace muster::tune {
namespace {

constexpr size_t kFrontPointsAtOnce = 128;
constexpr double kNoBound = std::numeric_limits<double>::infinity();

using FrontPoints = std::vector<std::vector<double>>;

/// The boxes of the first `axes` objectives.
std::vector<FreeBox> boxes_below(const FrontPoints& front,
                                 std::span<const double> reference,
                                 size_t axes) {
  const size_t axis = axes - 1;
  if (axes == 1) {
    double low = reference[0];
    for (const auto& point : front) low = std::max(low, point[0]);
    return {{.low = {low}, .high = {kNoBound}}};
  }
  std::vector<double> ends = {reference[axis], kNoBound};
  for (const auto& point : front) ends.push_back(point[axis]);
  std::ranges::sort(ends);
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  std::vector<FreeBox> out;
  for (size_t i = 0; i + 1 < ends.size(); ++i) {
    // In this slab a point is dominated by whoever reaches to its upper end.
    FrontPoints reaching;
    for (const auto& point : front)
      if (point[axis] >= ends[i + 1]) reaching.push_back(point);
    for (FreeBox& box : boxes_below(reaching, reference, axis)) {
      box.low.push_back(ends[i]);
      box.high.push_back(ends[i + 1]);
      out.push_back(std::move(box));
    }
  }
  return out;
}

/// The log of E[y - bound]+ of a normal y, and its derivatives by mean and deviation, each by the
/// expectation.
struct LogExcess {
  double log = -kNoBound, by_mean = 0, by_deviation = 0;
};

LogExcess log_excess(double mean, double deviation, double bound) {
  if (bound == kNoBound) return {};
  const double z = (mean - bound) / deviation;
  const ValueAndSlope at = log_expected_improvement(z);
  return {.log = at.value + std::log(deviation),
          .by_mean = at.slope / deviation,
          .by_deviation = (1 - at.slope * z) / deviation};
}

}  // namespace

std::vector<FreeBox> free_boxes(std::span<const std::vector<double>> front,
                                std::span<const double> reference) {
  FrontPoints above;
  for (const auto& point : front) {
    bool is_above = true;
    for (size_t m = 0; m < reference.size(); ++m) is_above &= point[m] > reference[m];
    if (is_above) above.push_back(point);
  }
  return boxes_below(above, reference, reference.size());
}

HypervolumeImprovement::HypervolumeImprovement(std::vector<const GpPosterior*> objectives,
                                               std::span<const std::vector<double>> front,
                                               std::span<const double> reference)
    : objectives_(std::move(objectives)), bounds_(objectives_.size()) {
  const std::vector<FreeBox> boxes = free_boxes(front, reference);
  for (size_t m = 0; m < bounds_.size(); ++m) {
    for (const FreeBox& box : boxes) {
      bounds_[m].push_back(box.low[m]);
      bounds_[m].push_back(box.high[m]);
    }
    std::ranges::sort(bounds_[m]);
    bounds_[m].erase(std::unique(bounds_[m].begin(), bounds_[m].end()), bounds_[m].end());
  }
  for (const FreeBox& box : boxes) {
    Box places;
    for (size_t m = 0; m < bounds_.size(); ++m) {
      const auto place = [&](double bound) {
        return static_cast<size_t>(std::ranges::lower_bound(bounds_[m], bound) -
                                   bounds_[m].begin());
      };
      places.low.push_back(place(box.low[m]));
      places.high.push_back(place(box.high[m]));
    }
    boxes_.push_back(std::move(places));
  }
}

double HypervolumeImprovement::improvement(std::span<const double> means,
                                           std::span<const double> variances,
                                           Slopes* slopes) const {
  const size_t count = objectives_.size();
  std::vector<std::vector<LogExcess>> excess(count);
  for (size_t m = 0; m < count; ++m) {
    const double deviation = std::sqrt(variances[m] + kStabilizingNoise);
    for (const double bound : bounds_[m])
      excess[m].push_back(log_excess(means[m], deviation, bound));
  }
  // E[min(y, high) - low]+ = E[y - low]+ - E[y - high]+, in logarithms.
  std::vector<double> logs;
  for (const Box& box : boxes_) {
    double log = 0;
    for (size_t m = 0; m < count; ++m) {
      const LogExcess &low = excess[m][box.low[m]], &high = excess[m][box.high[m]];
      log += low.log + std::log1p(-std::exp(high.log - low.log));
    }
    logs.push_back(std::isnan(log) ? -kNoBound : log);
  }
  const double most = std::ranges::max(logs);
  if (most == -kNoBound) return most;
  double sum = 0;
  for (const double log : logs) sum += std::exp(log - most);
  if (slopes == nullptr) return most + std::log(sum);
  slopes->by_mean.assign(count, 0);
  slopes->by_variance.assign(count, 0);
  for (size_t b = 0; b < boxes_.size(); ++b) {
    const double share = std::exp(logs[b] - most) / sum;
    if (!(share > 0)) continue;
    for (size_t m = 0; m < count; ++m) {
      const LogExcess &low = excess[m][boxes_[b].low[m]], &high = excess[m][boxes_[b].high[m]];
      const double part = std::exp(high.log - low.log);
      const double deviation = std::sqrt(variances[m] + kStabilizingNoise);
      slopes->by_mean[m] += share * (low.by_mean - part * high.by_mean) / (1 - part);
      slopes->by_variance[m] +=
          share * (low.by_deviation - part * high.by_deviation) / (1 - part) / (2 * deviation);
    }
  }
  return most + std::log(sum);
}

std::vector<double> HypervolumeImprovement::of_all(const PointSet& points,
                                                   std::vector<double>* gradients) const {
  const size_t axes = points.axes(), objectives = objectives_.size();
  std::vector<double> out(points.size());
  if (gradients != nullptr) gradients->assign(points.size() * axes, 0);
  for (size_t from = 0; from < points.size(); from += kFrontPointsAtOnce) {
    const size_t count = std::min(kFrontPointsAtOnce, points.size() - from);
    std::vector<GpPosterior::Answer> answers(objectives);
    for (size_t m = 0; m < objectives; ++m)
      objectives_[m]->ask(points, from, count, gradients != nullptr, answers[m]);
    std::vector<Slopes> slopes(count);
    for (size_t j = 0; j < count; ++j) {
      std::vector<double> means, variances;
      for (const GpPosterior::Answer& answer : answers) {
        means.push_back(answer.mean[j]);
        variances.push_back(answer.variance[j]);
      }
      slopes[j] = {.by_mean = std::vector<double>(objectives),
                   .by_variance = std::vector<double>(objectives)};
      out[from + j] = improvement(means, variances, gradients != nullptr ? &slopes[j] : nullptr);
    }
    if (gradients == nullptr) continue;
    for (size_t m = 0; m < objectives; ++m) {
      const size_t rows = answers[m].rows;
      std::vector<double> by_mean(count), more(count * axes);
      DenseVector t(rows * count);
      for (size_t j = 0; j < count; ++j) {
        by_mean[j] = slopes[j].by_mean[m];
        for (size_t i = 0; i < rows; ++i)  // variance = scale - w . w
          t[j * rows + i] = -2 * slopes[j].by_variance[m] * answers[m].whitened[j * rows + i];
      }
      objectives_[m]->gradients(points, from, answers[m], by_mean, t, more);
      for (size_t i = 0; i < more.size(); ++i) (*gradients)[from * axes + i] += more[i];
    }
  }
  if (other_ == nullptr) return out;
  std::vector<double> others;
  const std::vector<double> added =
      gradients != nullptr ? other_->values(points, others) : other_->values(points);
  for (size_t i = 0; i < out.size(); ++i) out[i] += added[i];
  for (size_t i = 0; i < others.size(); ++i) (*gradients)[i] += others[i];
  return out;
}

std::vector<double> HypervolumeImprovement::values(const PointSet& points) const {
  return of_all(points, nullptr);
}

std::vector<double> HypervolumeImprovement::values(const PointSet& points,
                                                   std::vector<double>& gradients) const {
  return of_all(points, &gradients);
}

}  // namespace muster::tune
