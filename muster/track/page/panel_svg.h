// One chart as SVG, for the picture and for the page.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "muster/track/page/curves.h"

namespace muster::track {

struct PanelSize {
  double width = 454;  // units of the SVG; text is 11 or 13 units high
  double height = 276;
};

/// Rules for the classes that panels use, light, with dark ones under prefers-color-scheme. Plain
/// colours, no variables: librsvg and office programs know none.
std::string_view panel_style();

/// The content of an <svg> or <g> of that size.
/// With `hover`, the drawn points are added as JSON for the page's script: data-curves on a <g>.
std::string panel_svg(const Panel& panel,
                      std::span<const EpochMark> epochs,
                      const PanelSize& size,
                      bool hover);

}  // namespace muster::track
