#include "muster/tune/plot/smooth_field.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace muster::tune {
namespace {

constexpr double kDensestWidth = 0.035, kWidestWidth = 0.12;
constexpr double kScottFactor = 0.29;  // the standard deviation of uniform places: sqrt(1 / 12)
constexpr double kReach = 3;           // widths

/// In widths; within a category 0, between two of them out of reach.
double distance(double a, double b, double width, size_t slots) {
  if (slots == 0) return (a - b) / width;
  const double n = static_cast<double>(slots);
  return std::floor(a * n) == std::floor(b * n) ? 0 : 2 * kReach;
}

}  // namespace

void SmoothField::smooth() {
  cells_.assign(static_cast<size_t>(columns_ * rows_), std::numeric_limits<double>::quiet_NaN());
  const double count = std::max<double>(1, static_cast<double>(points_.size()));
  const double width =
      std::clamp(kScottFactor * std::pow(count, -1.0 / 6), kDensestWidth, kWidestWidth);
  for (int row = 0; row < rows_; ++row) {
    for (int column = 0; column < columns_; ++column) {
      const double x = (column + 0.5) / columns_, y = (row + 0.5) / rows_;
      double sum = 0, weights = 0;
      for (const Sample& point : points_) {
        const double dx = distance(point.x, x, width, x_slots_);
        const double dy = distance(point.y, y, width, y_slots_);
        const double squared = dx * dx + dy * dy;
        if (squared > kReach * kReach) continue;
        const double weight = std::exp(-squared / 2);
        sum += weight * point.value;
        weights += weight;
      }
      if (weights > 0) cells_[static_cast<size_t>(row * columns_ + column)] = sum / weights;
    }
  }
}

double SmoothField::at(int column, int row) const {
  const auto cell = static_cast<size_t>(row * columns_ + column);
  return cell < cells_.size() ? cells_[cell] : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace muster::tune
