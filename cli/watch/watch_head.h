// The head of the screen of `muster study watch`.
#pragma once

#include <cstddef>

#include "cli/screen/canvas.h"
#include "cli/watch/watch_model.h"

namespace muster::cli {

inline constexpr size_t kHeadRows = 4;

/// The study and its tuner, counts of trials, the best or the front's ends, the order of the table.
void draw_watch_head(const WatchModel& model, double now_s, Canvas& canvas);

}  // namespace muster::cli
