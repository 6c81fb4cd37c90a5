#include "muster/tune/schedule/median/running_means.h"

#include <algorithm>
#include <cmath>

namespace muster::tune {

size_t RunningMeans::add_curve() {
  curves_.emplace_back();
  return curves_.size() - 1;
}

void RunningMeans::add(size_t index, int64_t t, double score) {
  Curve& curve = curves_[index];
  const int64_t before = curve.last_t;
  curve.last_t = t;
  if (t >= grace_ && curve.spoilt_t == INT64_MAX) {
    if (std::isfinite(score)) {
      curve.sum.push_back((curve.sum.empty() ? 0 : curve.sum.back()) + score);
      curve.t.push_back(t);
    } else {
      curve.spoilt_t = t;
    }
  }
  for (auto at = kept_.upper_bound(before); at != kept_.end() && at->first <= t; ++at) {
    if (const auto number = mean(curve, at->first)) at->second.add(*number);
  }
}

std::optional<double> RunningMeans::mean(const Curve& curve, int64_t t) const {
  if (curve.last_t < t || curve.spoilt_t <= t) return std::nullopt;
  const auto end = std::ranges::upper_bound(curve.t, t);
  if (end == curve.t.begin()) return std::nullopt;
  const auto n = end - curve.t.begin();
  const auto number = static_cast<double>(curve.sum[static_cast<size_t>(n - 1)] / n);
  if (!std::isfinite(number)) return std::nullopt;
  return number;
}

RunningQuantile RunningMeans::means_at(int64_t t) const {
  RunningQuantile means(0.5);
  for (const Curve& curve : curves_) {
    if (const auto number = mean(curve, t)) means.add(*number);
  }
  return means;
}

RunningMeans::Middle RunningMeans::at(int64_t t) {
  const auto middle = [](const RunningQuantile& means) {
    return Middle{means.median(), means.size()};
  };
  if (const auto kept = kept_.find(t); kept != kept_.end()) return middle(kept->second);
  RunningQuantile means = means_at(t);
  const Middle answer = middle(means);
  if (!asked_once_.insert(t).second) {
    asked_once_.erase(t);
    kept_.emplace(t, std::move(means));
  }
  return answer;
}

}  // namespace muster::tune
