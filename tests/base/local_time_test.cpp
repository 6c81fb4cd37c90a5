#include "muster/base/local_time.h"

#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <time.h>

namespace muster {
namespace {

/// Another time zone while it lives.
class Zone {
 public:
  explicit Zone(const char* name) {
    if (const char* before = std::getenv("TZ")) before_ = before;
    ::setenv("TZ", name, 1);
    ::tzset();
  }
  ~Zone() {
    before_ ? ::setenv("TZ", before_->c_str(), 1) : ::unsetenv("TZ");
    ::tzset();
  }

 private:
  std::optional<std::string> before_;
};

TEST(LocalTime, IsThatOfTheZone) {
  constexpr double kMoment = 1'700'000'000.9;  // 2023-11-14 22:13:20 UTC
  {
    const Zone utc("UTC0");
    EXPECT_EQ(local_time(kMoment, "%Y-%m-%d %H:%M:%S %Z"), "2023-11-14 22:13:20 UTC");
  }
  const Zone east("EAST-5:30");
  EXPECT_EQ(local_time(kMoment, "%Y-%m-%d_%H-%M-%S"), "2023-11-15_03-43-20");
}

TEST(LocalTime, OfATimeWithoutADateIsEmpty) {
  for (const double time : {1e18, -1e18, 1e300, std::nan("")})
    EXPECT_EQ(local_time(time, "%Y"), "") << time;
}

}  // namespace
}  // namespace muster
