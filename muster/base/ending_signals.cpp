#include "muster/base/ending_signals.h"

#include <cstddef>

namespace muster {

EndingActions note_ending_signals(void (*note)(int number)) {
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  EndingActions before{};
  for (size_t at = 0; at < kEndingSignals.size(); ++at) {
    // Who started this process so means it: nohup, a shell that runs it in the background.
    if (::sigaction(kEndingSignals[at], nullptr, &before[at]) == 0 &&
        before[at].sa_handler == SIG_IGN)
      continue;
    ::sigaction(kEndingSignals[at], &action, nullptr);
  }
  return before;
}

void restore_ending_signals(const EndingActions& before) {
  for (size_t at = 0; at < kEndingSignals.size(); ++at)
    ::sigaction(kEndingSignals[at], &before[at], nullptr);
}

}  // namespace muster
