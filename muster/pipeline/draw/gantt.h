// A step as a picture: a Gantt chart, a row for each rank.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "muster/pipeline/simulate/timeline.h"
#include "muster/track/picture/picture.h"

namespace muster::pipeline {

struct GanttChart {
  std::string title;
  std::string unit = "s";  ///< of the times; "s" is shown as s, ms or µs, whichever suits
  /// End of the time axis, for pictures side by side; 0: the end of the step.
  double until_s = 0;
};

/// 960 units wide. Colours tell F, B, I, W and averages apart, paler ones later virtual stages; a bar
/// with room shows its micro-batch. Bars are items, numbered rank by rank. Pure; any thread.
track::Picture gantt_picture(const Timeline& timeline, const GanttChart& chart);

/// It as a complete SVG document, light or dark as the viewer prefers; each bar says its action and
/// times under the pointer. All text is escaped. Pure; any thread.
std::string gantt_svg(const Timeline& timeline, const GanttChart& chart);

/// The bytes of a file of that name: an SVG document, or a PNG where it ends in .png. Throws as
/// track::picture_png().
std::string gantt_file(const Timeline& timeline,
                       const GanttChart& chart,
                       const std::filesystem::path& file);

/// Throws a usage error, which names `what`, for a file that ends neither in .svg nor in .png, or is a
/// folder.
void check_gantt_file(std::string_view what, const std::filesystem::path& file);

}  // namespace muster::pipeline
