// The memory of the last iterations, for whoever has to say why it ran out.
#pragma once

#include <cstddef>
#include <vector>

#include <c10/core/Device.h>

#include "muster/memory/tracker/iteration_end.h"

namespace muster::memory {

inline constexpr size_t kRecentIterations = 32;

/// Kept for the process: the last kRecentIterations of a device. A Tracker does it by itself, for as
/// long as it lives. Any thread.
void note_iteration(c10::Device device, const IterationEnd& end);
/// A loop has ended: what was noted of the device is forgotten.
void forget_iterations(c10::Device device);
/// Oldest first.
std::vector<IterationEnd> recent_iterations(c10::Device device);

}  // namespace muster::memory
