// A step as a picture: a Gantt chart, a row for each rank.
#pragma once

#include <string>

#include "muster/pipeline/simulate/timeline.h"

namespace muster::pipeline {

struct GanttChart {
  std::string title;
  std::string unit = "s";  ///< of the times; "s" is shown as s, ms or µs, whichever suits
  /// End of the time axis, for pictures side by side; 0: the end of the step.
  double until_s = 0;
};

/// A complete SVG document, 960 units wide; light or dark as the viewer prefers. Colours tell F, B,
/// I, W and averages apart, paler ones later virtual stages; a bar with room shows its micro-batch,
/// and each says its action and times under the pointer. All text is escaped. Pure; any thread.
std::string gantt_svg(const Timeline& timeline, const GanttChart& chart);

}  // namespace muster::pipeline
