#include "muster/parallel/waited_time.h"

#include <thread>

#include <gtest/gtest.h>

namespace muster {
namespace {

using namespace std::chrono_literals;
using parallel::WaitedTime;

TEST(WaitedTime, CountsNoMoreOfAPauseThanWasAllowed) {
  WaitedTime waited(10ms);
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(waited.look(), 10ms);
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(waited.look(), 20ms);
}

TEST(WaitedTime, IsTheTimeOfAClockForWhoLooksOften) {
  const auto start = WaitedTime::Clock::now();
  WaitedTime waited(1h);
  while (waited.look() < 20ms) {
  }
  EXPECT_GE(WaitedTime::Clock::now() - start, 20ms);
  const auto before = WaitedTime::Clock::now() - start;
  EXPECT_GE(waited.look() + 1ms, before);
}

}  // namespace
}  // namespace muster
