// A picture as PNG.
#pragma once

#include <string>

#include "muster/track/picture/picture.h"

namespace muster::track {

/// The bytes of a PNG file, light, `scale` pixels to a unit (fewer where a side would have more than
/// 32,767). Draws with cairo, which is opened when it is first needed. Any thread. Throws an
/// environment error where cairo is not installed or has no memory left.
std::string picture_png(const Picture& picture, double scale = 2);

}  // namespace muster::track
