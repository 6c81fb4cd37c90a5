// Hyperparameters of a Gaussian process by maximum a posteriori.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "muster/tune/search/gp/posterior.h"

namespace muster::tune {

/// The least variance of noise, so that no kernel matrix is singular.
inline constexpr double kLeastNoise = 1e-6;

struct FitOptions {
  /// The function has no noise: its variance is kLeastNoise.
  bool deterministic = false;
  int max_evaluations = 200;  ///< of the posterior density, O(n^3) each
};

/// Minus the log of the marginal likelihood times the prior, without constants, as Optuna 5.0's
/// GPSampler has it: sum over weights w of 0.1 / w + 0.1 w; Gamma(2, 1) of the scale;
/// Gamma(1.1, 30) of the noise. nullopt: the kernel matrix is not positive definite.
std::optional<double> map_loss(const PointSet& points,
                               std::span<const double> targets,
                               const std::vector<uint8_t>& hamming,
                               const GpHyper& hyper);

/// Where map_loss is least, by L-BFGS (NLopt's) over logarithms from each of `starts`; of these the
/// best is taken. At least one start; each has one weight per axis.
GpHyper fit_hyper(const PointSet& points,
                  std::span<const double> targets,
                  const std::vector<uint8_t>& hamming,
                  std::span<const GpHyper> starts,
                  const FitOptions& options = {});

/// Where to start from: weights and scale 1, as Optuna does, but with noise 0.1. From noise 1 one
/// fit in five ends where all is noise (of the 100 of tests/golden/gp).
GpHyper default_hyper(size_t axes);

}  // namespace muster::tune
