// Which part of a trial's point is fixed before the searcher is asked: points to evaluate, the
// grid.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/tune/study_spec.h"

namespace muster::tune {

/// Ray Tune's order: the points to evaluate first, which count towards num_samples; then
/// num_samples times the grid, whose parameters are sorted by name, the first varying fastest.
class Variants {
 public:
  /// Throws a usage error for points to evaluate outside the space.
  explicit Variants(const StudySpec& spec);

  /// Trials of the study: max(0, num_samples - points) times the grid's size, plus the points; -1:
  /// without end.
  int64_t trials() const;

  /// The fixed numbers of trial `number`'s point, NaN where the searcher draws.
  Point partial(int64_t number) const;

  /// Which trial's random stream the searcher uses: `number`, or the first of the same grid with
  /// constant_grid_search.
  int64_t stream(int64_t number) const;

 private:
  std::vector<Point> points_;
  std::vector<size_t> grid_;  // dimensions
  std::vector<size_t> sizes_;
  size_t dimensions_ = 0;
  int64_t samples_ = 1;
  bool constant_ = false;
};

}  // namespace muster::tune
