// A picture as SVG.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "muster/track/picture/picture.h"

namespace muster::track {

/// Rules for the classes of picture_svg, light, and dark under prefers-color-scheme. Plain colours,
/// no variables: librsvg and office programs know none.
std::string picture_style();

/// An <svg> element for a page that has picture_style(). What is of an item has data-item with its
/// number. Coordinates to a tenth of a unit. All text is escaped. Pure.
std::string picture_svg(const Picture& picture);

/// A document of its own; light or dark as the viewer prefers, and nothing is loaded from anywhere.
/// `tip`: what a viewer shows of an item under the pointer; may be none.
std::string picture_svg_document(const Picture& picture,
                                 const std::function<std::string(int64_t item)>& tip = nullptr);

}  // namespace muster::track
