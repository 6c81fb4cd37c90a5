#include "muster/tune/search/gp/ascent.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace muster::tune {
namespace {

constexpr double kArmijo = 1e-4;

double dot(std::span<const double> a, std::span<const double> b) {
  double out = 0;
  for (size_t i = 0; i < a.size(); ++i) out += a[i] * b[i];
  return out;
}

}  // namespace

BoxAscent::BoxAscent(std::vector<double> start,
                     std::vector<double> low,
                     std::vector<double> high,
                     const AscentOptions& options)
    : x_(std::move(start)),
      low_(std::move(low)),
      high_(std::move(high)),
      trial_(x_),
      options_(options),
      value_(-std::numeric_limits<double>::infinity()),
      done_(x_.empty()) {}

bool BoxAscent::is_free(size_t i) const {
  return gradient_[i] > 0 ? x_[i] < high_[i] : x_[i] > low_[i];
}

double BoxAscent::free_slope() const {
  double out = 0;
  for (size_t i = 0; i < x_.size(); ++i) {
    if (is_free(i)) out = std::max(out, std::abs(gradient_[i]));
  }
  return out;
}

void BoxAscent::tell(double value, std::span<const double> gradient) {
  if (done_) return;
  bool better = std::isfinite(value);
  for (const double g : gradient) better = better && std::isfinite(g);
  if (!started_) {
    done_ = !better;
    if (!better) return;
    started_ = true;
    value_ = value;
    gradient_.assign(gradient.begin(), gradient.end());
    done_ = free_slope() <= options_.least_slope;
    if (!done_) choose_direction();
    return;
  }
  if (better) {
    double promised = 0;
    for (size_t i = 0; i < x_.size(); ++i) promised += gradient_[i] * (trial_[i] - x_[i]);
    better = value > value_ && value >= value_ + kArmijo * promised;
  }
  if (better) return accept(value, gradient);
  length_ *= 0.5;
  if (++halvings_ <= options_.max_halvings) return propose();
  // The memory misleads it, or this is the top as far as doubles can tell.
  done_ = pairs_.empty();
  pairs_.clear();
  if (!done_) choose_direction();
}

void BoxAscent::accept(double value, std::span<const double> gradient) {
  Pair pair;
  for (size_t i = 0; i < x_.size(); ++i) {
    pair.step.push_back(trial_[i] - x_[i]);
    pair.change.push_back(gradient_[i] - gradient[i]);
  }
  pair.product = dot(pair.step, pair.change);
  if (pair.product > 1e-12 * dot(pair.change, pair.change)) {
    pairs_.push_back(std::move(pair));
    if (pairs_.size() > options_.memory) pairs_.pop_front();
  }
  const double gain = value - value_;
  x_ = trial_;
  value_ = value;
  gradient_.assign(gradient.begin(), gradient.end());
  const double size = std::max({std::abs(value), std::abs(value - gain), 1.0});
  done_ = ++steps_ >= options_.max_steps || gain <= options_.least_gain * size ||
          free_slope() <= options_.least_slope;
  if (!done_) choose_direction();
}

void BoxAscent::choose_direction() {
  std::vector<bool> free(x_.size());
  direction_.assign(x_.size(), 0);
  for (size_t i = 0; i < x_.size(); ++i) {
    free[i] = is_free(i);
    if (free[i]) direction_[i] = gradient_[i];
  }
  // Products over the free coordinates alone.
  const auto product = [&](const std::vector<double>& a, const std::vector<double>& b) {
    double out = 0;
    for (size_t i = 0; i < a.size(); ++i) out += free[i] ? a[i] * b[i] : 0;
    return out;
  };
  std::vector<std::pair<const Pair*, double>> used;  // and its factor
  for (auto pair = pairs_.rbegin(); pair != pairs_.rend(); ++pair) {
    const double curvature = product(pair->step, pair->change);
    if (curvature <= 1e-12 * product(pair->change, pair->change)) continue;
    const double factor = product(pair->step, direction_) / curvature;
    for (size_t i = 0; i < x_.size(); ++i)
      if (free[i]) direction_[i] -= factor * pair->change[i];
    used.emplace_back(&*pair, factor);
  }
  if (!used.empty()) {
    const Pair& last = *used.front().first;
    const double scale = product(last.step, last.change) / product(last.change, last.change);
    for (double& d : direction_) d *= scale;
  }
  for (auto at = used.rbegin(); at != used.rend(); ++at) {
    const auto& [pair, factor] = *at;
    const double back = product(pair->change, direction_) / product(pair->step, pair->change);
    for (size_t i = 0; i < x_.size(); ++i)
      if (free[i]) direction_[i] += (factor - back) * pair->step[i];
  }
  length_ = 1;
  if (used.empty()) length_ = std::min(1.0, 1 / std::sqrt(dot(direction_, direction_)));
  halvings_ = 0;
  propose();
}

void BoxAscent::propose() {
  bool moves = false;
  for (size_t i = 0; i < x_.size(); ++i) {
    trial_[i] = std::clamp(x_[i] + length_ * direction_[i], low_[i], high_[i]);
    moves = moves || trial_[i] != x_[i];
  }
  if (!moves) done_ = true;
}

}  // namespace muster::tune
