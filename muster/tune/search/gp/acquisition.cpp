#include "muster/tune/search/gp/acquisition.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/tune/search/gp/improvement.h"
#include "muster/tune/search/gp/sobol.h"
#include "muster/tune/search/normal.h"

namespace muster::tune {
namespace {

constexpr size_t kPointsAtOnce = 128;
constexpr double kLeastImprovement = 1e-12;

}  // namespace

Fantasies Fantasies::of_sobol(size_t samples, size_t running, uint64_t seed, uint32_t stream) {
  const SobolSequence sequence(running + 1, seed, stream);
  const std::vector<double> columns = sequence.columns(samples);
  Fantasies out{.samples = samples, .running = running, .draws = {}};
  for (const double u : columns) out.draws.push_back(inverse_normal_cdf(u));
  return out;
}

void Acquisition::set_fantasies(Fantasies fantasies) {
  const size_t running = fantasies.running, samples = fantasies.samples;
  const size_t first = objective_.rows() - running;
  // f(r) = mean + L_r z, one running trial after the other: its own whitened column has L_r's row.
  PointSet points(objective_.points().axes(), running);
  for (size_t r = 0; r < running; ++r) points.append(objective_.points().point(first + r));
  GpPosterior::Answer answer;
  objective_.ask(points, 0, running, false, answer);
  best_fantasies_.assign(samples, kLeastImprovement);
  DenseVector y;
  for (size_t r = 0; r < running; ++r) {
    const double* w = answer.whitened.data() + r * answer.rows + first;
    y.assign(samples, answer.mean[r] - best_);
    for (size_t i = 0; i <= r; ++i)
      dense_math().accumulate(w[i], fantasies.draws.data() + i * samples, y.data(), samples);
    for (size_t s = 0; s < samples; ++s) best_fantasies_[s] = std::max(best_fantasies_[s], y[s]);
  }
  fantasies_ = std::move(fantasies);
}

double Acquisition::improvement(double mean,
                                double variance,
                                double& by_mean,
                                double& by_variance) const {
  const double deviation = std::sqrt(variance + kStabilizingNoise);
  const double z = (mean - best_) / deviation;
  const ValueAndSlope log_improvement = log_expected_improvement(z);
  by_mean = log_improvement.slope / deviation;
  by_variance = (1 - log_improvement.slope * z) / (2 * deviation * deviation);
  return log_improvement.value + std::log(deviation);
}

/// See Note [Fantasies as rows]: the log of the mean over the samples of what the best of point and
/// running trials is above best_, and 1e-12 at least. `t` gets the derivative by each entry of w,
/// which has the whole of the variance in it.
double Acquisition::improvement_of_all(
    double mean, double variance, const double* w, double& by_mean, double* t) const {
  const size_t running = fantasies_->running, samples = fantasies_->samples;
  const size_t first = objective_.rows() - running;
  const double* const draws = fantasies_->draws.data();
  const double* const own = draws + running * samples;
  const double deviation = std::sqrt(variance + kStabilizingNoise);
  DenseVector y(samples, mean - best_);
  dense_math().accumulate(deviation, own, y.data(), samples);
  for (size_t r = 0; r < running; ++r)
    dense_math().accumulate(w[first + r], draws + r * samples, y.data(), samples);
  double sum = 0;
  for (size_t s = 0; s < samples; ++s) sum += std::max(y[s], best_fantasies_[s]);
  if (t != nullptr) {
    // Only where the point itself is the best of the sample does it change anything.
    DenseVector shares(samples);
    double by_deviation = 0;
    by_mean = 0;
    for (size_t s = 0; s < samples; ++s) {
      shares[s] = y[s] > best_fantasies_[s] ? 1 / sum : 0;
      by_mean += shares[s];
      by_deviation += shares[s] * own[s];
    }
    for (size_t i = 0; i < objective_.rows(); ++i) t[i] = -by_deviation / deviation * w[i];
    for (size_t r = 0; r < running; ++r) {
      double sum_of_draws = 0;
      dense_math().column_products(shares.data(), draws + r * samples, samples, 1, &sum_of_draws);
      t[first + r] += sum_of_draws;
    }
  }
  return std::log(sum / static_cast<double>(samples));
}

void Acquisition::add_objective(
    const PointSet& points, size_t from, size_t count, double* values, double* gradients) const {
  GpPosterior::Answer answer;
  objective_.ask(points, from, count, gradients != nullptr, answer);
  const size_t n = answer.rows;
  std::vector<double> by_mean(count);
  DenseVector t(gradients != nullptr ? n * count : 0);
  for (size_t j = 0; j < count; ++j) {
    const double* w = answer.whitened.data() + j * n;
    double* const t_j = gradients != nullptr ? t.data() + j * n : nullptr;
    if (fantasies_) {
      values[j] += improvement_of_all(answer.mean[j], answer.variance[j], w, by_mean[j], t_j);
      continue;
    }
    double by_variance = 0;
    values[j] += improvement(answer.mean[j], answer.variance[j], by_mean[j], by_variance);
    if (t_j == nullptr) continue;
    for (size_t i = 0; i < n; ++i) t_j[i] = -2 * by_variance * w[i];
  }
  if (gradients == nullptr) return;
  std::vector<double> more(count * points.axes());
  objective_.gradients(points, from, answer, by_mean, t, more);
  for (size_t i = 0; i < more.size(); ++i) gradients[i] += more[i];
}

void Acquisition::add_feasibility(
    const PointSet& points, size_t from, size_t count, double* values, double* gradients) const {
  GpPosterior::Answer answer;
  feasibility_->ask(points, from, count, gradients != nullptr, answer);
  const size_t n = answer.rows;
  std::vector<double> by_mean(count);
  DenseVector t(gradients != nullptr ? n * count : 0);
  for (size_t j = 0; j < count; ++j) {
    const double deviation = std::sqrt(answer.variance[j] + kStabilizingNoise);
    const double z = (answer.mean[j] - feasible_above_) / deviation;
    ValueAndSlope feasible = log_normal_cdf(z);
    feasible.value *= feasible_power_;
    feasible.slope *= feasible_power_;
    values[j] += feasible.value;
    if (gradients == nullptr) continue;
    by_mean[j] = feasible.slope / deviation;
    const double by_variance = -feasible.slope * z / (2 * deviation * deviation);
    for (size_t i = 0; i < n; ++i) t[j * n + i] = -2 * by_variance * answer.whitened[j * n + i];
  }
  if (gradients == nullptr) return;
  std::vector<double> more(count * points.axes());
  feasibility_->gradients(points, from, answer, by_mean, t, more);
  for (size_t i = 0; i < more.size(); ++i) gradients[i] += more[i];
}

std::vector<double> Acquisition::of_all(const PointSet& points,
                                        std::vector<double>* gradients) const {
  std::vector<double> out(points.size());
  if (gradients != nullptr) gradients->assign(points.size() * points.axes(), 0);
  for (size_t from = 0; from < points.size(); from += kPointsAtOnce) {
    const size_t count = std::min(kPointsAtOnce, points.size() - from);
    double* const by = gradients != nullptr ? gradients->data() + from * points.axes() : nullptr;
    if (!ignore_objective_) add_objective(points, from, count, out.data() + from, by);
    if (feasibility_ != nullptr) add_feasibility(points, from, count, out.data() + from, by);
  }
  return out;
}

std::vector<double> Acquisition::values(const PointSet& points) const {
  return of_all(points, nullptr);
}

std::vector<double> Acquisition::values(const PointSet& points,
                                        std::vector<double>& gradients) const {
  return of_all(points, &gradients);
}

}  // namespace muster::tune
