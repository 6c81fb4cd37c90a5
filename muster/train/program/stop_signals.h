// Signals that ask a program to end in order.
#pragma once

namespace muster::train {

/// From now on the first SIGINT, SIGTERM or SIGHUP (a terminal that is closed) of this process is only
/// noted; it also puts the default action back, so that the second one kills. One that is ignored
/// stays so.
void watch_stop_signals();

/// Whether one came. Any thread.
bool stop_signalled();

}  // namespace muster::train
