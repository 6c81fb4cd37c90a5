// Scattered values as a field: what lies between the trials of a contour plot.
#pragma once

#include <cstddef>
#include <vector>

namespace muster::tune {

/// The unit square in cells; each has the mean of the values around it, weighted by a normal
/// distribution of their distance (Nadaraya 1964, Watson 1964). One thread.
class SmoothField {
 public:
  /// With slots the axis is so many categories: what is in one counts for all of it, and for no
  /// other. 0: numbers.
  SmoothField(int columns, int rows, size_t x_slots = 0, size_t y_slots = 0)
      : columns_(columns), rows_(rows), x_slots_(x_slots), y_slots_(y_slots) {}

  /// A value at a place of the square; those outside it count as far as they are near.
  void add(double x, double y, double value) { points_.push_back({x, y, value}); }

  /// Computes the cells. The width of the distribution is the square's by n^(-1/6), as Scott's rule
  /// has it in two dimensions, within 0.035 and 0.12.
  void smooth();

  int columns() const { return columns_; }
  int rows() const { return rows_; }

  /// The cell's value, row 0 at y = 0; NaN where no value is nearer than three widths, and before
  /// smooth().
  double at(int column, int row) const;

 private:
  struct Sample {
    double x, y, value;
  };
  int columns_, rows_;
  size_t x_slots_, y_slots_;
  std::vector<Sample> points_;
  std::vector<double> cells_;
};

}  // namespace muster::tune
