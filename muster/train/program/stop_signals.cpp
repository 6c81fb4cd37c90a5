#include "muster/train/program/stop_signals.h"

#include <atomic>

#include "muster/base/ending_signals.h"

namespace muster::train {
namespace {

std::atomic<bool> stop_wanted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "it is written by a signal handler");

}  // namespace

void watch_stop_signals() {
  note_ending_signals([](int) { stop_wanted = true; });
}

bool stop_signalled() { return stop_wanted; }

}  // namespace muster::train
