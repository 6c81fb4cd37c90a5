// Images turned, sheared and seen from aside, as torchvision.transforms.v2.functional has it.
#pragma once

#include <array>
#include <optional>
#include <span>

#include <ATen/core/Tensor.h>

#include "muster/data/functional/resize.h"

namespace muster::data::functional {

// Images are [C, H, W] of uint8, float32 or float64 on the CPU; every one throws a usage error for
// others, or an interpolation that is neither nearest nor bilinear. Each pixel is sampled by
// LibTorch's grid_sample, as there, so that all bits are its own on the same machine; bytes are rounded.

/// What is beyond the image, per channel or for all; none: it is faded to 0, which is not the same as
/// a fill of 0.
using Fill = std::optional<std::span<const double>>;

struct Point {
  double x = 0;
  double y = 0;
};

struct Affine {
  double angle = 0;             ///< degrees, clockwise
  Point translate;              ///< pixels
  double scale = 1;             ///< above 0
  Point shear;                  ///< degrees
  std::optional<Point> center;  ///< pixels from the upper left corner; none: the middle
};
at::Tensor affine(const at::Tensor& image,
                  const Affine& change,
                  Interpolation interpolation = Interpolation::kNearest,
                  const Fill& fill = {});

struct Rotation {
  double angle = 0;     ///< degrees, anticlockwise
  bool expand = false;  ///< the image becomes as large as it has to
  std::optional<Point> center;
};
at::Tensor rotate(const at::Tensor& image,
                  const Rotation& rotation,
                  Interpolation interpolation = Interpolation::kNearest,
                  const Fill& fill = {});

/// (x, y) of the new image is ((ax + by + c) / (gx + hy + 1), (dx + ey + f) / (gx + hy + 1)) of the old.
using PerspectiveCoefficients = std::array<double, 8>;
/// The one that takes the four `from` to the four `to`, by least squares as torchvision's.
PerspectiveCoefficients perspective_coefficients(const std::array<Point, 4>& from,
                                                 const std::array<Point, 4>& to);
at::Tensor perspective(const at::Tensor& image,
                       const PerspectiveCoefficients& coefficients,
                       Interpolation interpolation = Interpolation::kBilinear,
                       const Fill& fill = {});

}  // namespace muster::data::functional
