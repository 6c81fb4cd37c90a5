#include "muster/base/metric_text.h"

#include <cmath>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "muster/base/text.h"

namespace muster {
namespace {

TEST(MetricText, ShowsSomethingOfEveryNumber) {
  EXPECT_EQ(metric_text(0.90853), "0.9085");
  EXPECT_EQ(metric_text(-2.5), "-2.5000");
  EXPECT_EQ(metric_text(0.001), "0.0010");
  EXPECT_EQ(metric_text(0.000999), "0.000999");
  EXPECT_EQ(metric_text(3.2149e-05), "3.21e-05");
  EXPECT_EQ(metric_text(-4e-12), "-4e-12");
  EXPECT_EQ(metric_text(1.5e12), "1.5e+12");
  EXPECT_EQ(metric_text(0), "0.0000");
  EXPECT_EQ(metric_text(0.0312, 3), "0.031");
  EXPECT_EQ(metric_text(0.00312, 3), "0.00312");
  EXPECT_EQ(metric_text(std::nan("")), "nan");
  EXPECT_EQ(metric_text(std::numeric_limits<double>::infinity()), "inf");
}

TEST(MetricText, FixedCutsNoDigits) {
  EXPECT_EQ(fixed(1e70, 4).size(), 71U + 5U);
  EXPECT_EQ(std::stod(fixed(1e300, 2)), 1e300);
}

}  // namespace
}  // namespace muster
