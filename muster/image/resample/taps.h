// Which pixels a resized one is made of, and with what weights.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "muster/image/kernels/kernels.h"

namespace muster::image {

/// How pixels between pixels are found: a window around each, and its width.
enum class Filter {
  kNearest,   ///< the pixel at (x + 0.5) * scale
  kBox,       ///< the mean of those that it covers
  kBilinear,  ///< a triangle of 2 pixels
  kHamming,   ///< 2 pixels, sharper than the triangle
  kBicubic,   ///< Keys' cubic of 4 pixels, a = -0.5
  kLanczos    ///< 6 pixels
};

/// Whose bytes a resized image has. Both filter each axis by itself, round to bytes in between, and
/// widen the filter where the image shrinks. The tensor's begins with the widths; so does Pillow's, but
/// where the height loses more than twice the pixels that the width does.
enum class Reference {
  kTensor,  ///< torchvision's of a tensor (LibTorch's AVX2 kernel): weights of at most 16 bits
  kPillow   ///< Pillow 13's of an RGB or L image: weights of 22 bits
};

/// "bilinear".
std::string_view to_string(Filter filter);

/// The weights of one axis. Not for kNearest.
class Taps {
 public:
  /// From `in` to `out` pixels, both at least 1.
  Taps(Filter filter, int64_t in, int64_t out, Reference reference);

  TapTable table() const;

 private:
  std::vector<int32_t> first_, count_;
  std::vector<int16_t> low_, high_;
  int64_t width_ = 0;
  int bits_ = 0;
};

/// The pixel that each of `out` is a copy of. Pillow adds up the places, and so do we: a sum rounds
/// elsewhere than a product.
std::vector<int32_t> nearest_places(int64_t in, int64_t out);

}  // namespace muster::image
