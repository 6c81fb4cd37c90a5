#include "muster/base/duration.h"

#include <chrono>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::Optional;

TEST(Duration, IsReadWithItsUnitsTheLongerOnesFirst) {
  EXPECT_THAT(duration_s("90s"), Optional(90));
  EXPECT_THAT(duration_s("90m"), Optional(5400));
  EXPECT_THAT(duration_s("2h"), Optional(7200));
  EXPECT_THAT(duration_s("1h30m"), Optional(5400));
  EXPECT_THAT(duration_s(" 2 d 1.5 s "), Optional(172801.5));
  EXPECT_THAT(duration_s("250ms"), Optional(0.25));
  for (const char* bad : {"", "90", "s", "1x", "1s1h", "1m1m", "-1s", "1e3s", "1h 30", "1..5s"})
    EXPECT_EQ(duration_s(bad), std::nullopt) << bad;
}

TEST(Duration, OfAWaitCanBeAddedToAClocksTime) {
  using std::chrono::milliseconds, std::chrono::seconds;
  EXPECT_EQ(bounded_wait(0.25), milliseconds(250));
  for (const double none : {0.0, -1.0, -1e300}) EXPECT_EQ(bounded_wait(none), seconds(0)) << none;
  for (const double longest : {1e9, 1e18, 1e300, HUGE_VAL, std::nan("")}) {
    EXPECT_EQ(bounded_wait(longest), seconds(1'000'000'000)) << longest;
    const auto now = std::chrono::steady_clock::now();
    EXPECT_GT(now + bounded_wait(longest), now) << longest;
  }
}

TEST(Duration, OfAFlagMayAlsoBeANumberOfSeconds) {
  EXPECT_THAT(seconds_of("2h"), Optional(7200));
  EXPECT_THAT(seconds_of("0.01"), Optional(0.01));
  EXPECT_THAT(seconds_of("1e3"), Optional(1000));
  EXPECT_THAT(seconds_of("-5"), Optional(-5)) << "whether it may be is the flag's to say";
  for (const char* bad : {"", "nan", "inf", "1e400", "2 hours", "1h30", "-2h"})
    EXPECT_EQ(seconds_of(bad), std::nullopt) << bad;
}

}  // namespace
}  // namespace muster
