// Pixels in other places, unchanged: flips, cut-outs, borders.
#pragma once

#include <span>
#include <string_view>

#include "muster/image/pixels.h"

namespace muster::image {

/// All of these fill `out`, which lies elsewhere in memory. Both images may have any strides.
void copy(const Pixels& in, const MutablePixels& out);
void flip_horizontal(const Pixels& in, const MutablePixels& out);
void flip_vertical(const Pixels& in, const MutablePixels& out);

/// What stands beyond an image's border. Names are torchvision's.
enum class Border {
  kConstant,
  kEdge,      ///< the last pixel
  kReflect,   ///< mirrored, the last pixel not repeated: … 2 1 | 0 1 2 …
  kSymmetric  ///< mirrored with the last pixel: … 1 0 | 0 1 2 …
};
/// "reflect".
std::string_view to_string(Border border);

/// Fills `out` with `in` whose corner comes to (top, left) of it, negative where it is cut off, and
/// with the border around. `fill`: a byte per channel, or one for all; of kConstant. Mirrors do not
/// reach beyond the image: throws a usage error where they would have to.
void place(const Pixels& in,
           const MutablePixels& out,
           int64_t top,
           int64_t left,
           Border border,
           std::span<const uint8_t> fill);

}  // namespace muster::image
