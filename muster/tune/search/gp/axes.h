// A space as the axes of a Gaussian process, and its points there.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "muster/tune/space/space.h"

namespace muster::tune {

/// One dimension of the space that has more than one value.
struct GpAxis {
  enum Kind {
    kContinuous,  ///< [0, 1] of unit_axis.h
    kStepped,     ///< the same, at the middles of `places` parts
    kCategory     ///< 0, 1, …, places - 1
  } kind;
  size_t dimension;
  double places = 0;  ///< infinity: more than can be told apart
};

// Note [Conditions in a Gaussian process]
// A parameter that does not apply has no place on its axis. It gets the middle, a category one of
// its own, and each condition has one axis more, of two categories: it holds or not. So points with
// and without a parameter are apart by a length of their own, those without it are not apart by
// it, and the distances stay those of a Euclidean space, which the kernel needs (leaving the
// axis out of the distance would not be: no point is equally far from three on a line).

/// A candidate has a number for each axis whether it applies there or not, so that it has one when
/// another category makes it apply. Columns are what the kernel sees.
class GpAxes {
 public:
  explicit GpAxes(const Space& space);

  std::span<const GpAxis> axes() const { return axes_; }
  size_t columns() const { return axes_.size() + conditions_.size(); }
  bool has_conditions() const { return !conditions_.empty(); }

  /// Of a kernel's axes, as DenseKernel::hamming.
  std::vector<uint8_t> hamming() const;

  /// Columns of a point with NaN where a parameter does not apply.
  std::vector<double> columns_of(const Point& point) const;

  /// Columns of a candidate, conditions applied.
  std::vector<double> columns_of_candidate(std::span<const double> candidate,
                                           const Point& fixed) const;

  /// Which axes apply to a candidate.
  std::vector<bool> applying(std::span<const double> candidate, const Point& fixed) const;

  /// The point of a candidate, a number everywhere: single values, and what `fixed` has, included.
  Point point_of(std::span<const double> candidate, const Point& fixed) const;

  /// Place or category of a number of the axis' dimension.
  double place_of(const GpAxis& axis, double number) const;

  /// The place `steps` steps from a place, or the last one there is; for stepped axes.
  double neighbour(const GpAxis& axis, double place, int steps) const;

  /// The place of an axis nearest to u in [0, 1]: a category has an equal part of it.
  double snapped(const GpAxis& axis, double u) const;

 private:
  struct Condition {
    std::string when;
    std::vector<size_t> dimensions;
  };
  /// Which dimensions apply. Thousands of candidates differ in few of the numbers that decide it, so
  /// answers are kept where these numbers have steps.
  std::vector<bool> present(std::span<const double> candidate, const Point& fixed) const;

  const Space& space_;
  std::vector<GpAxis> axes_;
  std::vector<Condition> conditions_;
  std::vector<size_t> deciding_;  // dimensions
  bool keeps_present_ = false;
  mutable std::map<std::vector<double>, std::vector<bool>> present_;
  Point single_;  // the one value of each dimension that has one; NaN for the others
};

}  // namespace muster::tune
