// How much a point promises where there are several objectives: expected hypervolume improvement.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "muster/tune/search/gp/acquisition.h"

namespace muster::tune {

/// One part of what a front leaves undominated: low < y <= high by objective, larger is better.
struct FreeBox {
  std::vector<double> low, high;  ///< high may be infinite
};

/// The part of the space above `reference` that no point of the front is at least as good as
/// everywhere, as boxes that do not overlap; points that are not above the reference count for
/// nothing. Slab by slab along the last objective, so at most (points + 1) to the power of one less
/// than there are objectives.
std::vector<FreeBox> free_boxes(std::span<const std::vector<double>> front,
                                std::span<const double> reference);

/// The log of the hypervolume that a point is expected to add, exactly, for objectives that are
/// independent given the trials: over the boxes the sum of the products of E[min(y, high) - low]+.
/// Source: Emmerich, Deutz, Klinkenberg 2011, "Hypervolume-based expected improvement: monotonicity
/// properties and exact computation", with the boxes above; in logarithms as Ament and others 2023.
/// Optuna 5.0's GPSampler takes the mean over 128 draws instead.
class HypervolumeImprovement final : public AcquisitionFunction {
 public:
  /// Posteriors by objective, larger is better; front and reference in their units. They outlive
  /// this.
  HypervolumeImprovement(std::vector<const GpPosterior*> objectives,
                         std::span<const std::vector<double>> front,
                         std::span<const double> reference);

  /// Adds what another function says (the log of the probability that a point is feasible). It
  /// outlives this.
  void add(const AcquisitionFunction& other) { other_ = &other; }

  std::vector<double> values(const PointSet& points) const override;
  std::vector<double> values(const PointSet& points, std::vector<double>& gradients) const override;

 private:
  struct Box {
    std::vector<size_t> low, high;  // places in bounds_, by objective
  };
  struct Slopes {
    std::vector<double> by_mean, by_variance;  // by objective
  };
  double improvement(std::span<const double> means,
                     std::span<const double> variances,
                     Slopes* slopes) const;
  std::vector<double> of_all(const PointSet& points, std::vector<double>* gradients) const;

  std::vector<const GpPosterior*> objectives_;
  std::vector<std::vector<double>> bounds_;  // by objective, what boxes begin and end at
  std::vector<Box> boxes_;
  const AcquisitionFunction* other_ = nullptr;
};

}  // namespace muster::tune
