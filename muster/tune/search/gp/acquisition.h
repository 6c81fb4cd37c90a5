// How much a point promises: expected improvement, with running trials and with feasibility.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "muster/tune/search/gp/posterior.h"

namespace muster::tune {

/// Variance that is added to the function's, so that no deviation is 0.
inline constexpr double kStabilizingNoise = 1e-12;

/// Values that running trials might bring: the same standard normal draws for each point that is
/// asked about, so that the expectation over them is a smooth function.
struct Fantasies {
  size_t samples = 0, running = 0;
  DenseVector draws;  ///< [running + 1, samples]; the last row is the point's own

  /// From a scrambled Sobol sequence. At most SobolSequence::kMaxDimensions - 1 running.
  static Fantasies of_sobol(size_t samples, size_t running, uint64_t seed, uint32_t stream);
};

// Note [Fantasies as rows]
// Given the running trials r and the data, Optuna samples f(r) = mean + L_r z and then f(x) from
// what is left: y = mean(x) + cov(x, r) C_r^-1 (f(r) - mean(r)) + sigma(x) z'. With r appended to
// the rows of the posterior (noise: kStabilizingNoise), L_r is the lower right part of its factor,
// the last entries of the whitened column w are L_r^-1 cov(r, x), and so y = mean(x) + w_r . z +
// sigma(x) z', with sigma^2 the posterior's variance. So a fantasy is a scalar product, and its
// gradient is one of GpPosterior::gradients.

/// What a search for the next point climbs.
class AcquisitionFunction {
 public:
  virtual ~AcquisitionFunction() = default;

  /// At points with as many axes as the posteriors behind it; larger is better.
  virtual std::vector<double> values(const PointSet& points) const = 0;

  /// gradients [points, axes].
  virtual std::vector<double> values(const PointSet& points,
                                     std::vector<double>& gradients) const = 0;
};

/// The log of what is expected at points. Source: Optuna 5.0's LogEI, qLogEI, and
/// LogPI for the feasibility; Ament and others 2023 (logEI), Balandat and others 2020 (fantasies).
class Acquisition final : public AcquisitionFunction {
 public:
  /// The expected improvement over `best` of what `objective` says.
  Acquisition(const GpPosterior& objective, double best) : objective_(objective), best_(best) {}

  /// The last fantasies.running rows of the objective's posterior are the running trials.
  void set_fantasies(Fantasies fantasies);

  /// Adds `power` times the log of the probability that another function is above a threshold.
  void set_feasibility(const GpPosterior& feasibility, double threshold, double power = 1) {
    feasibility_ = &feasibility;
    feasible_above_ = threshold;
    feasible_power_ = power;
  }

  /// No trial is feasible yet, so that nothing is best: only feasibility counts.
  void ignore_objective() { ignore_objective_ = true; }

  std::vector<double> values(const PointSet& points) const override;
  std::vector<double> values(const PointSet& points, std::vector<double>& gradients) const override;

 private:
  void add_objective(
      const PointSet& points, size_t from, size_t count, double* values, double* gradients) const;
  void add_feasibility(
      const PointSet& points, size_t from, size_t count, double* values, double* gradients) const;
  double improvement(double mean, double variance, double& by_mean, double& by_variance) const;
  double improvement_of_all(
      double mean, double variance, const double* w, double& by_mean, double* t) const;
  std::vector<double> of_all(const PointSet& points, std::vector<double>* gradients) const;

  const GpPosterior& objective_;
  double best_;
  bool ignore_objective_ = false;
  std::optional<Fantasies> fantasies_;
  DenseVector best_fantasies_;  // of each sample the improvement of its best
  const GpPosterior* feasibility_ = nullptr;
  double feasible_above_ = 0, feasible_power_ = 1;
};

}  // namespace muster::tune
