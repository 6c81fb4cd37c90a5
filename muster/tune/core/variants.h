// Which part of a trial's point is fixed before the searcher is asked: points to evaluate, the
// grid.
#pragma once

#include <cstdint>
#include <vector>

#include "muster/tune/core/study_spec.h"
#include "muster/tune/space/grid.h"

namespace muster::tune {

/// Ray Tune's order: the points to evaluate first, which count towards num_samples; then
/// num_samples times the grid (class Grid). A point to evaluate that leaves parameters of the grid
/// open is tried with each of their combinations. The grid has the grid_search parameters; with a
/// searcher that enumerates (SearcherEntry::enumerates), all parameters.
/// Source: ray 2.60, basic_variant and variant_generator.
class Variants {
 public:
  /// Throws a usage error for points to evaluate outside the space, a grid without end, and
  /// constant_grid_search with a searcher other than random.
  explicit Variants(const StudySpec& spec);

  /// Trials of the study; -1: without end.
  int64_t trials() const;

  /// The fixed numbers of trial `number`'s point, NaN where the searcher draws. With
  /// constant_grid_search nothing is left to it: what a grid shares is drawn here.
  Point partial(int64_t number) const;

 private:
  struct Group {
    const Grid* grid;
    int64_t first;  // its first trial
    size_t point;   // of points_, or its size
  };
  Group group_of(int64_t number) const;

  Space space_;
  uint64_t seed_ = 0;
  std::vector<Point> points_;
  std::vector<Grid> point_grids_;      // of what each point leaves open
  std::vector<int64_t> point_firsts_;  // its first trial, and behind the last point the next one
  Grid grid_;
  int64_t samples_ = 1;  // of the whole grid, after the points; -1: without end
  bool constant_ = false;
};

}  // namespace muster::tune
