// The screen of `muster study watch`.
#pragma once

#include <string>
#include <vector>

#include "cli/screen/canvas.h"
#include "cli/watch/watch_model.h"

namespace muster::cli {

/// The least terminal that has room; a smaller one is told so.
inline constexpr size_t kLeastColumns = 40, kLeastRows = 10;

/// Draws the model, which learns how many rows of its table are in sight. `log`: what the selected
/// trial printed last, oldest line first; may be empty.
void draw_watch(WatchModel& model,
                const std::vector<std::string>& log,
                double now_s,
                Canvas& canvas);

}  // namespace muster::cli
