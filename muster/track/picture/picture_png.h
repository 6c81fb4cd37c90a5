// A picture as PNG.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "muster/track/picture/picture.h"

namespace muster::track {

/// Pixels in a picture, below all that it draws: rgb // [rows, columns, 3], which belong to the caller,
/// stretched to `width` x `height` units. Enlarged ones keep their edges.
struct Raster {
  double x = 0, y = 0, width = 0, height = 0;
  int64_t rows = 0;
  int64_t columns = 0;
  std::span<const uint8_t> rgb;
};

/// The bytes of a PNG file, light, `scale` pixels to a unit (fewer where a side would have more than
/// 32,767). Draws with cairo, which is opened when it is first needed. Any thread. Throws an
/// environment error where cairo is not installed or has no memory left, an internal one for a raster
/// whose span is not of its size.
std::string picture_png(const Picture& picture,
                        double scale = 2,
                        std::span<const Raster> rasters = {});

}  // namespace muster::track
