// The curves of a training run as one SVG picture.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/track/metrics_reader.h"
#include "muster/track/page/line.h"

namespace muster::track {

/// One curve. Points are sorted by x; a y that is not finite is a gap.
struct Series {
  std::string name;  ///< a phase: "train", "validate", "test", or any other
  std::vector<Point> points;
};

/// One chart: a quantity against the step, or another number, a curve for each phase that has it.
struct Panel {
  std::string title;
  std::vector<Series> series;
  std::string unit = {};     ///< "nats"; may be empty
  bool is_share = false;     ///< values are 0 … 1, and so is the axis
  bool log_if_wide = false;  ///< logarithmic when all values are above 0 and span over two decades
  std::string x_name = "optimizer step";
};

struct EpochMark {
  int64_t epoch = 0;
  int64_t last_step = 0;  ///< the epoch ended with this step
};

struct Curves {
  std::string title;
  std::vector<Panel> panels;
  std::vector<EpochMark> epochs;
};

/// Loss, accuracy, learning rate and samples per second where there are any, then a panel for every
/// further column but elapsed_s and epoch_s, in the order in which they appear. Epochs that are over
/// are marked where they ended; with 0 steps per epoch, which is not known, those behind which
/// another one has rows. Pure; any thread.
Curves curves_of(std::span<const MetricsRow> records,
                 std::string title,
                 int64_t steps_per_epoch = 0);

/// A complete SVG document, two panels side by side, 960 units wide; light or dark as the viewer
/// prefers. Nothing is loaded from anywhere; all text is escaped. Pure; any thread.
std::string render_curves_svg(const Curves& curves);

}  // namespace muster::track
