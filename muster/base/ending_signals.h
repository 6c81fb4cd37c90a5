// Signals that ask a process to end in order.
#pragma once

#include <array>

#include <signal.h>

namespace muster {

/// SIGINT, SIGTERM and SIGHUP (a terminal that is closed).
inline constexpr std::array<int, 3> kEndingSignals = {SIGINT, SIGTERM, SIGHUP};

using EndingActions = std::array<struct sigaction, kEndingSignals.size()>;

/// From now on `note`, which is async-signal-safe, is called with the first one of each; it also puts the
/// default action back, so that the second one kills. One that is ignored stays so. Of the process.
/// Returns what was before.
EndingActions note_ending_signals(void (*note)(int number));
void restore_ending_signals(const EndingActions& before);

}  // namespace muster
