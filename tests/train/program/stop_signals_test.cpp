#include "muster/train/program/stop_signals.h"

#include <csignal>

#include <gtest/gtest.h>
#include <unistd.h>

namespace muster::train {
namespace {

/// What is known of a stop behind `number` in a process that was started with SIGINT ignored.
void stop_with_sigint_ignored(int number) {
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGHUP, SIG_DFL);
  watch_stop_signals();
  std::raise(number);
  ::_exit(stop_signalled() ? 1 : 0);
}

TEST(StopSignalsDeathTest, AreThoseThatAreNotIgnoredATerminalsEndAmongThem) {
  EXPECT_EXIT(stop_with_sigint_ignored(SIGINT), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(stop_with_sigint_ignored(SIGHUP), ::testing::ExitedWithCode(1), "");
}

}  // namespace
}  // namespace muster::train
