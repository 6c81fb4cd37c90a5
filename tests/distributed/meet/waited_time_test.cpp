#include "muster/distributed/meet/waited_time.h"

#include <thread>

#include <gtest/gtest.h>

namespace muster {
namespace {

using namespace std::chrono_literals;
using distributed::WaitedTime;

TEST(WaitedTime, CountsNoMoreOfAPauseThanWasAllowed) {
  WaitedTime waited(10ms);
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(waited.look(), 10ms);
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(waited.look(), 20ms);
}

TEST(WaitedTime, IsTheTimeOfAClockForWhoLooksOften) {
  const auto before = WaitedTime::Clock::now();
  WaitedTime waited(1h);
  const auto start = WaitedTime::Clock::now();
  while (waited.look() < 20ms) {
  }
  const auto passed = WaitedTime::Clock::now() - start;
  const auto counted = waited.look();
  EXPECT_GE(counted, passed);
  EXPECT_LE(counted, WaitedTime::Clock::now() - before);
}

}  // namespace
}  // namespace muster
