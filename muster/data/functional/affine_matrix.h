// The matrix of an affine change, in double precision as torchvision computes it.
#pragma once

#include <array>

#include "muster/data/functional/warp.h"

namespace muster::data::functional {

/// Rows of three: x' = m[0] x + m[1] y + m[2], y' = m[3] x + m[4] y + m[5].
using AffineMatrix = std::array<double, 6>;

/// From the old image to the new one; `center` and the points are measured from the same place.
AffineMatrix affine_matrix(const Affine& change, const Point& center);
/// From the new image to the old one.
AffineMatrix inverse_affine_matrix(const Affine& change, const Point& center);

}  // namespace muster::data::functional
