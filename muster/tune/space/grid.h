// The combinations of a grid.
#pragma once

#include <cstdint>
#include <vector>

#include "muster/tune/space/space.h"

namespace muster::tune {

/// All combinations of the values of some dimensions, in Ray Tune's order: dimensions sorted by
/// name, part by part ("a.b" before "a-b"), the first varying fastest. Without dimensions there is
/// one combination. Source: ray 2.60, variant_generator.
class Grid {
 public:
  Grid() = default;

  /// Throws a usage error for a dimension without end (naming its parameter and what to do), and
  /// for more than 2^53 combinations.
  Grid(const Space& space, std::vector<size_t> dimensions);

  int64_t size() const { return size_; }

  /// Writes combination `index`, 0 <= index < size(), into the dimensions of the grid.
  void fill(Point& point, int64_t index) const;

 private:
  struct Axis {
    size_t dimension;
    std::vector<double> numbers;
  };
  std::vector<Axis> axes_;  // the first varies fastest
  int64_t size_ = 1;
};

}  // namespace muster::tune
