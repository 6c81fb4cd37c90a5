#include "muster/parallel/replicas/batch_shares.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::parallel {
namespace {

double median(std::deque<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Rows go from the fullest to those that have a weight and no row.
void give_each_some(std::vector<int64_t>& shares, const std::vector<double>& weights) {
  for (size_t i = 0; i < shares.size(); ++i) {
    if (shares[i] > 0 || weights[i] <= 0) continue;
    const auto fullest = std::max_element(shares.begin(), shares.end());
    if (*fullest < 2) return;
    --*fullest;
    shares[i] = 1;
  }
}

}  // namespace

std::vector<int64_t> deal_rows(int64_t rows, const std::vector<double>& weights, bool each_some) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int64_t> shares;
  std::vector<double> rest;  // what rounding down took from each
  for (const double weight : weights) {
    const double exact = static_cast<double>(rows) * (weight / sum);
    shares.push_back(static_cast<int64_t>(exact));
    rest.push_back(weight > 0 ? exact - std::floor(exact) : -1);
  }
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(
      order.begin(), order.end(), [&](size_t a, size_t b) { return rest[a] > rest[b]; });
  const int64_t left = rows - std::accumulate(shares.begin(), shares.end(), int64_t{0});
  for (int64_t i = 0; i < left; ++i) ++shares[order[static_cast<size_t>(i) % order.size()]];
  if (each_some) give_each_some(shares, weights);
  return shares;
}

SpeedShares::SpeedShares(size_t replicas, SpeedSharesOptions options)
    : options_(options),
      seconds_per_row_(replicas),
      fractions_(replicas, 1.0 / static_cast<double>(replicas)) {
  if (options_.window < 1) {
    throw usage_error({.refused = "speed_window",
                       .rule = "a median needs at least one step",
                       .value = std::to_string(options_.window)});
  }
  if (!(options_.max_change > 0 && options_.max_change <= 1)) {
    throw usage_error({.refused = "max_share_change",
                       .rule = "above 0 and at most 1",
                       .value = shortest(options_.max_change)});
  }
}

// See Note [Shares by speed].
void SpeedShares::note(const std::vector<int64_t>& rows, const std::vector<double>& seconds) {
  bool all_known = true;
  for (size_t i = 0; i < fractions_.size(); ++i) {
    std::deque<double>& times = seconds_per_row_[i];
    if (rows[i] > 0 && seconds[i] > 0) times.push_back(seconds[i] / static_cast<double>(rows[i]));
    if (times.size() > static_cast<size_t>(options_.window)) times.pop_front();
    all_known = all_known && !times.empty();
  }
  if (!all_known) return;
  std::vector<double> target;
  for (const auto& times : seconds_per_row_) target.push_back(1 / median(times));
  const double sum = std::accumulate(target.begin(), target.end(), 0.0);
  double largest = 0;  // change, as a share of the present fraction
  for (size_t i = 0; i < target.size(); ++i) {
    target[i] /= sum;
    largest = std::max(largest, std::abs(target[i] / fractions_[i] - 1));
  }
  if (largest < kDeadBand) return;
  const double way = std::min(1.0, options_.max_change / largest);
  for (size_t i = 0; i < target.size(); ++i) fractions_[i] += way * (target[i] - fractions_[i]);
}

}  // namespace muster::parallel
