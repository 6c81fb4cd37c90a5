// How NSGA-II makes a new point of those that have lived.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "muster/tune/objective/domination.h"
#include "muster/tune/space/space.h"

namespace muster::tune {

struct Individual {
  Point point;           ///< NaN where a condition did not hold
  Losses values;         ///< by objective, as reported
  Losses losses;         ///< the same, smaller is better
  double violation = 0;  ///< of constraints; 0: feasible
};

struct ChildRules {
  double crossover = 0.9;  ///< probability that there are two parents
  double swap = 0.5;       ///< of a dimension, to be the second parent's
  double mutation = -1;    ///< of a dimension, to be drawn anew; below 0: one by the dimensions
};

/// Dimensions that differ between points, in the order in which Optuna draws for them: categories,
/// then numbers.
std::vector<size_t> crossed_dimensions(std::span<const Dimension> dimensions);

/// A child of two parents, each the better one of two that are drawn (the second of them where none
/// is better), or of one. Of `dimensions` alone; NaN elsewhere, and where it is to be drawn anew. What
/// does not apply in one parent is the other's. `parents` has at least two; `uniform` draws from
/// [0, 1). Source: optuna 5.0.0, samplers/nsgaii: uniform crossover, mutation by drawing.
Point child_of(std::span<const Individual> parents,
               std::span<const size_t> dimensions,
               const ChildRules& rules,
               const std::function<double()>& uniform);

}  // namespace muster::tune
