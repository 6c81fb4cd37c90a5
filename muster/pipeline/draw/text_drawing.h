// A step as text, a line for each rank.
#pragma once

#include <cstdint>
#include <string>

#include "muster/pipeline/simulate/timeline.h"

namespace muster::pipeline {

struct TextDrawing {
  /// Columns at most. 0: as many as it takes for the shortest computation to show its name.
  int64_t columns = 0;
};

/// Time runs to the right, "." is idle, and an action is its kind and micro-batch, with the stage
/// before it where ranks have several: 1F1B over two ranks, backward twice as long,
///
///     rank 0  F0 F1 ......B0--- F2 B1--- ...B2---
///     rank 1  ...F0 B0--- F1 B1--- F2 B2--- ......
///
/// Messages are "<" and ">", averages "=", where they take a rank's time. Where it is narrow names
/// shrink to their letter. Pure; any thread.
std::string draw_text(const Timeline& timeline, const TextDrawing& options = {});

/// "step 33, bubble 27.3 %, idle 9". With "s" as unit, times are as human_duration writes them.
std::string summary_text(const Timeline& timeline, const std::string& unit = "");

}  // namespace muster::pipeline
