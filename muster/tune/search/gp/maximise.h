// Where an acquisition function is greatest in a space.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "muster/tune/search/gp/acquisition.h"
#include "muster/tune/search/gp/axes.h"

namespace muster::tune {

/// A number for each axis of a GpAxes, and what the acquisition function is there.
struct GpCandidate {
  std::vector<double> places;
  double value = 0;
};

struct MaximiseOptions {
  size_t samples = 2048;  ///< of a scrambled Sobol sequence
  size_t starts = 10;     ///< of local searches: the best sample, others by chance, incumbents
  uint64_t seed = 0;
  uint32_t stream = 0;  ///< another one gives other samples
};

/// The search of Optuna 5.0's GPSampler: samples all over the space, then from some of them and
/// from the incumbents in turn L-BFGS over the continuous axes and a search along each stepped or
/// categorical axis, until nothing changes.
class AcquisitionSearch {
 public:
  /// `fixed`: NaN at the dimensions that are open. `last_column` follows GpAxes' columns in each
  /// point. `weights`: the kernel's, which say how far is far.
  AcquisitionSearch(const AcquisitionFunction& acquisition,
                    const GpAxes& axes,
                    const Point& fixed,
                    double last_column,
                    std::span<const double> weights);

  /// The best first: the ends of the local searches, then the best of the samples.
  std::vector<GpCandidate> run(std::span<const std::vector<double>> incumbents,
                               const MaximiseOptions& options) const;

 private:
  std::vector<GpCandidate> sampled(const MaximiseOptions& options) const;
  std::vector<size_t> picked(std::span<const GpCandidate> samples,
                             size_t count,
                             const MaximiseOptions& options) const;
  void climb(std::span<GpCandidate> candidates) const;
  void ascend(std::span<GpCandidate*> candidates) const;
  void search_along(size_t axis,
                    std::span<GpCandidate*> candidates,
                    std::vector<bool>& changed) const;
  std::vector<double> places_to_try(size_t axis, double place, double reach) const;
  bool try_places(size_t axis,
                  std::span<GpCandidate*> candidates,
                  double reach,
                  std::vector<bool>& changed) const;
  void evaluate(std::span<GpCandidate> candidates) const;
  std::vector<double> columns_of(std::span<const double> places) const;
  bool is_smooth(size_t axis) const;

  const AcquisitionFunction& acquisition_;
  const GpAxes& axes_;
  const Point& fixed_;
  double last_column_;
  std::span<const double> weights_;
  std::vector<size_t> open_;  // axes
};

}  // namespace muster::tune
