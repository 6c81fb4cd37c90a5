#include "muster/train/program/stop_signals.h"

#include <atomic>

#include <signal.h>

namespace muster::train {
namespace {

std::atomic<bool> stop_wanted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "it is written by a signal handler");

}  // namespace

void watch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { stop_wanted = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    // Who started this process so means it: nohup, a shell that runs it in the background.
    if (::sigaction(number, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) continue;
    ::sigaction(number, &action, nullptr);
  }
}

bool stop_signalled() { return stop_wanted; }

}  // namespace muster::train
