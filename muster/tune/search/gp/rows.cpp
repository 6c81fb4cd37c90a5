#include "muster/tune/search/gp/rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/tune/search/normal.h"

namespace muster::tune {
namespace {

constexpr double kLeastDeviation = 1e-13;  // of the largest score: less is rounding

}  // namespace

void GpRows::suggested(int64_t number, const Point& point) { started_[number].point = point; }

void GpRows::reported(int64_t number, int64_t t, double score) {
  const auto trial = started_.find(number);
  if (trial == started_.end()) return;  // was given, not suggested: its end is all we hear of
  trial->second.step = t;
  trial->second.score = score;
  trial->second.is_paused = false;
}

void GpRows::paused(int64_t number) {
  const auto trial = started_.find(number);
  if (trial == started_.end()) return;
  Started& t = trial->second;
  t.is_paused = true;
  if (t.step == 0 || std::isnan(t.score) || t.step == t.row_step) return;
  t.row_step = t.step;
  add({.kind = GpRow::kScore,
       .columns = axes_.columns_of(t.point),
       .score = t.score,
       .step = t.step,
       .whole = false,
       .is_last = false});
}

void GpRows::told(const FinishedTrial& trial) {
  const auto started = started_.find(trial.number);
  const int64_t row_step = started == started_.end() ? -1 : started->second.row_step;
  if (started != started_.end()) started_.erase(started);
  GpRow row{.kind = GpRow::kScore,
            .columns = axes_.columns_of(trial.point),
            .score = trial.score,
            .step = trial.step,
            .whole = trial.state != TrialState::kPruned};
  if (trial.is_infeasible()) {
    row.kind = GpRow::kInfeasible;
  } else if (trial.state == TrialState::kFailed || std::isnan(trial.score)) {
    if (!failed_are_worst_) return;
    row.kind = GpRow::kWorst;
    row.score = std::numeric_limits<double>::quiet_NaN();
    row.whole = true;
  } else if (!row.whole && row.step == row_step) {
    return;  // what the pause said
  }
  add(std::move(row));
}

void GpRows::add(GpRow row) {
  has_stopped_ = has_stopped_ || !row.whole;
  has_infeasible_ = has_infeasible_ || row.kind == GpRow::kInfeasible;
  deepest_ = std::max(deepest_, row.step);
  rows_.push_back(std::move(row));
}

std::vector<std::vector<double>> GpRows::running() const {
  std::vector<std::vector<double>> out;
  for (const auto& [number, trial] : started_) {
    if (!trial.is_paused) out.push_back(axes_.columns_of(trial.point));
  }
  return out;
}

double depth_of(const GpRow& row, int64_t deepest) {
  if (row.whole) return 1;
  return std::min(
      1.0, std::log1p(static_cast<double>(row.step)) / std::log1p(static_cast<double>(deepest)));
}

std::vector<double> standardized(std::vector<double> scores) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const double s : scores) {
    if (!std::isfinite(s)) continue;
    low = std::min(low, s);
    high = std::max(high, s);
  }
  if (low > high) low = high = 0;
  // In units of the largest, so that no square overflows.
  const double largest = std::max(std::abs(low), std::abs(high));
  const double unit = largest > 0 ? largest : 1;
  double mean = 0, squares = 0;
  for (double& s : scores) {
    s = (std::isnan(s) ? low : std::clamp(s, low, high)) / unit;
    mean += s / static_cast<double>(scores.size());
  }
  for (const double s : scores)
    squares += (s - mean) * (s - mean) / static_cast<double>(scores.size());
  const double deviation = std::max(std::sqrt(squares), kLeastDeviation);
  for (double& s : scores) s = (s - mean) / deviation;
  return scores;
}

std::vector<double> half_ranked(std::vector<double> scores) {
  if (scores.size() < 2) return scores;
  std::vector<double> sorted = scores;
  std::ranges::sort(sorted);
  const size_t n = sorted.size();
  const double median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
  double squares = 0, above = 0;
  for (const double s : sorted) {
    if (s < median) continue;
    squares += (s - median) * (s - median);
    above += 1;
  }
  const double width = std::sqrt(squares / above);
  for (double& s : scores) {
    if (!(s < median)) continue;
    const auto [first, last] = std::equal_range(sorted.begin(), sorted.end(), s);
    const auto middle = static_cast<double>((first - sorted.begin()) + (last - sorted.begin())) / 2;
    s = median + width * inverse_normal_cdf(middle / static_cast<double>(n));
  }
  return scores;
}

}  // namespace muster::tune
