// Signals that ask a program to end in order.
#pragma once

namespace muster::train {

/// From now on the first SIGINT or SIGTERM of this process is only noted; it also puts the default
/// action back, so that the second one kills.
void watch_stop_signals();

/// Whether one came. Any thread.
bool stop_signalled();

}  // namespace muster::train
