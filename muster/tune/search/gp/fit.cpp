#include "muster/tune/search/gp/fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include <nlopt.h>

namespace muster::tune {
namespace {

// Raw parameters: log weights, log scale, log (noise - 0.99 kLeastNoise at the start; above
// kLeastNoise after it), as Optuna has them.
constexpr double kRawBound = 16;        // priors keep weights and scale within e^±8
constexpr double kRawNoiseLow = -40;    // nothing beside the least noise
constexpr double kRelativeGain = 1e-8;  // where L-BFGS stops

struct MapProblem {
  const PointSet& points;
  DenseVector targets;
  const std::vector<uint8_t>& hamming;
  bool deterministic;
  DenseVector matrix = {}, slopes = {}, inverse = {}, alpha = {}, whitened = {};  // [n, n], [n]

  size_t axes() const { return hamming.size(); }
  size_t raw_size() const { return axes() + 2; }

  GpHyper hyper(std::span<const double> raw) const {
    GpHyper out;
    for (size_t k = 0; k < axes(); ++k) out.weights.push_back(std::exp(raw[k]));
    out.scale = std::exp(raw[axes()]);
    out.noise = kLeastNoise + (deterministic ? 0.0 : std::exp(raw[axes() + 1]));
    return out;
  }

  std::vector<double> raw(const GpHyper& hyper) const {
    std::vector<double> out;
    for (const double w : hyper.weights) out.push_back(std::log(w));
    out.push_back(std::log(hyper.scale));
    out.push_back(std::log(std::max(hyper.noise - 0.99 * kLeastNoise, 1e-12)));
    for (size_t i = 0; i < out.size(); ++i) {
      const double low = i + 1 == out.size() ? kRawNoiseLow : -kRawBound;
      out[i] = std::clamp(out[i], low, kRawBound);
    }
    return out;
  }

  std::optional<double> loss(const GpHyper& hyper, double* gradient);
  double minus_log_prior(const GpHyper& hyper, double* gradient) const;
  void likelihood_gradient(const DenseKernel& kernel, double noise, double* gradient);
};

double MapProblem::minus_log_prior(const GpHyper& hyper, double* gradient) const {
  double out = 0;
  for (size_t k = 0; k < axes(); ++k) {
    const double w = hyper.weights[k];
    out += 0.1 / w + 0.1 * w;
    if (gradient != nullptr) gradient[k] = 0.1 * w - 0.1 / w;
  }
  out -= std::log(hyper.scale) - hyper.scale;
  out -= 0.1 * std::log(hyper.noise) - 30 * hyper.noise;
  if (gradient != nullptr) {
    gradient[axes()] = hyper.scale - 1;
    gradient[axes() + 1] = 30 - 0.1 / hyper.noise;  // by the noise itself; see loss()
  }
  return out;
}

std::optional<double> MapProblem::loss(const GpHyper& hyper, double* gradient) {
  const size_t n = points.size();
  const DenseKernel kernel{hyper.weights.data(), hamming.data(), axes(), hyper.scale};
  matrix.resize(n * n);
  if (gradient != nullptr) slopes.resize(n * n);
  dense_math().covariance(kernel,
                          points.dense(),
                          points.dense(),
                          true,
                          matrix.data(),
                          gradient != nullptr ? slopes.data() : nullptr,
                          n);
  for (size_t i = 0; i < n; ++i) matrix[i * n + i] += hyper.noise;
  double half_log_determinant = 0;
  if (!dense_math().invert_cholesky(matrix.data(), n, n, &half_log_determinant)) return {};
  whitened.resize(n);
  dense_math().multiply(matrix.data(), n, n, false, targets.data(), whitened.data(), 1, n);
  double out = half_log_determinant + minus_log_prior(hyper, gradient);
  for (const double w : whitened) out += w * w / 2;
  if (!std::isfinite(out)) return {};
  if (gradient == nullptr) return out;
  likelihood_gradient(kernel, hyper.noise, gradient);
  // By the raw noise instead of the noise.
  double& by_noise = gradient[axes() + 1];
  by_noise = deterministic ? 0 : by_noise * (hyper.noise - kLeastNoise);
  return out;
}

/// Adds -1/2 tr((alpha alpha^T - K^-1) dK) for each raw parameter; for the noise by itself.
void MapProblem::likelihood_gradient(const DenseKernel& kernel, double noise, double* gradient) {
  const size_t n = points.size();
  alpha.resize(n);
  inverse.resize(n * n);
  dense_math().multiply(matrix.data(), n, n, true, whitened.data(), alpha.data(), 1, n);
  dense_math().gram(matrix.data(), n, n, inverse.data(), n);
  double trace = 0, alpha_squared = 0, alpha_targets = 0;
  for (size_t j = 0; j < n; ++j) {
    trace += inverse[j * n + j];
    alpha_squared += alpha[j] * alpha[j];
    alpha_targets += alpha[j] * targets[j];
    for (size_t i = j + 1; i < n; ++i)
      slopes[j * n + i] *= alpha[i] * alpha[j] - inverse[j * n + i];
  }
  std::vector<double> by_weight(axes());
  dense_math().weigh_distances(kernel, points.dense(), slopes.data(), n, by_weight.data());
  for (size_t k = 0; k < axes(); ++k) gradient[k] -= kernel.weights[k] * by_weight[k];
  // K - noise is the scale's; alpha^T K alpha = alpha^T targets, tr(K^-1 K) = n.
  gradient[axes()] -=
      0.5 * ((alpha_targets - noise * alpha_squared) - (static_cast<double>(n) - noise * trace));
  gradient[axes() + 1] -= 0.5 * (alpha_squared - trace);
}

double nlopt_map_loss(unsigned size, const double* raw, double* gradient, void* data) {
  auto& problem = *static_cast<MapProblem*>(data);
  const auto loss = problem.loss(problem.hyper({raw, size}), gradient);
  if (loss) return *loss;
  if (gradient != nullptr) std::fill_n(gradient, size, 0.0);
  return std::numeric_limits<double>::max();
}

/// The raw parameters that L-BFGS finds from `raw`.
void minimise(MapProblem& problem, std::vector<double>& raw, int max_evaluations) {
  const auto size = static_cast<unsigned>(raw.size());
  const std::unique_ptr<nlopt_opt_s, void (*)(nlopt_opt)> search(nlopt_create(NLOPT_LD_LBFGS, size),
                                                                 &nlopt_destroy);
  std::vector<double> low(size, -kRawBound), high(size, kRawBound);
  low.back() = kRawNoiseLow;
  nlopt_set_lower_bounds(search.get(), low.data());
  nlopt_set_upper_bounds(search.get(), high.data());
  nlopt_set_min_objective(search.get(), &nlopt_map_loss, &problem);
  nlopt_set_ftol_rel(search.get(), kRelativeGain);
  nlopt_set_maxeval(search.get(), max_evaluations);
  nlopt_set_vector_storage(search.get(), 10);
  double ignored = 0;
  // What it returns, a failure too, is where it got to: loss() judges that.
  nlopt_optimize(search.get(), raw.data(), &ignored);
}

}  // namespace

GpHyper default_hyper(size_t axes) {
  return {.weights = std::vector<double>(axes, 1.0), .scale = 1, .noise = 0.1};
}

std::optional<double> map_loss(const PointSet& points,
                               std::span<const double> targets,
                               const std::vector<uint8_t>& hamming,
                               const GpHyper& hyper) {
  MapProblem problem{.points = points,
                     .targets = DenseVector(targets.begin(), targets.end()),
                     .hamming = hamming,
                     .deterministic = false};
  return problem.loss(hyper, nullptr);
}

GpHyper fit_hyper(const PointSet& points,
                  std::span<const double> targets,
                  const std::vector<uint8_t>& hamming,
                  std::span<const GpHyper> starts,
                  const FitOptions& options) {
  MapProblem problem{.points = points,
                     .targets = DenseVector(targets.begin(), targets.end()),
                     .hamming = hamming,
                     .deterministic = options.deterministic};
  std::optional<double> best_loss;
  GpHyper best = starts.front();
  for (const GpHyper& start : starts) {
    std::vector<double> raw = problem.raw(start);
    minimise(problem, raw, options.max_evaluations);
    const GpHyper found = problem.hyper(raw);
    const auto loss = problem.loss(found, nullptr);
    if (!loss || (best_loss && *loss >= *best_loss)) continue;
    best_loss = loss;
    best = found;
  }
  return best;
}

}  // namespace muster::tune
