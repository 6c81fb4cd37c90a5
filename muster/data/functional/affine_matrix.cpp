#include "muster/data/functional/affine_matrix.h"

#include <cmath>
#include <numbers>

namespace muster::data::functional {
namespace {

/// Turned and sheared, not scaled: [[a, b], [c, d]], whose determinant is 1.
struct TurnedAxes {
  double a, b, c, d;
};

TurnedAxes turned_axes(const Affine& change) {
  const auto radians = [](double degrees) { return degrees * (std::numbers::pi / 180.0); };
  const double turn = radians(change.angle), shear_x = radians(change.shear.x),
               shear_y = radians(change.shear.y);
  const double cos_y = std::cos(shear_y), tan_x = std::tan(shear_x), turn_y = turn - shear_y;
  const double a = std::cos(turn_y) / cos_y;
  const double c = std::sin(turn_y) / cos_y;
  return {a, -(a * tan_x + std::sin(turn)), c, std::cos(turn) - c * tan_x};
}

}  // namespace

AffineMatrix affine_matrix(const Affine& change, const Point& center) {
  const auto [a, b, c, d] = turned_axes(change);
  const double scale = change.scale;
  AffineMatrix m{a * scale, b * scale, 0.0, c * scale, d * scale, 0.0};
  m[2] += center.x + change.translate.x - m[0] * center.x - m[1] * center.y;
  m[5] += center.y + change.translate.y - m[3] * center.x - m[4] * center.y;
  return m;
}

AffineMatrix inverse_affine_matrix(const Affine& change, const Point& center) {
  const auto [a, b, c, d] = turned_axes(change);
  const double x = center.x + change.translate.x, y = center.y + change.translate.y;
  AffineMatrix m{
      d / change.scale, -b / change.scale, 0.0, -c / change.scale, a / change.scale, 0.0};
  m[2] += center.x - m[0] * x - m[1] * y;
  m[5] += center.y - m[3] * x - m[4] * y;
  return m;
}

}  // namespace muster::data::functional
