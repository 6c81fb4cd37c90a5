#include "muster/tune/schedule/score_text.h"

#include <limits>

#include <gtest/gtest.h>

namespace muster::tune {
namespace {

TEST(ScoreText, IsTheMetricInItsOwnSign) {
  EXPECT_EQ(metric_text(-0.31, Mode::kMin), "0.31");
  EXPECT_EQ(metric_text(0.31, Mode::kMax), "0.31");
  EXPECT_EQ(metric_text(0.0, Mode::kMin), "0");
  EXPECT_EQ(metric_text(1.0 / 3, Mode::kMax), "0.333333");
  EXPECT_EQ(metric_text(std::numeric_limits<double>::quiet_NaN(), Mode::kMin), "nan");
  EXPECT_EQ(metric_text(std::numeric_limits<double>::infinity(), Mode::kMin), "-inf");
}

TEST(ScoreText, ShowsAsManyDigitsAsTellTwoNumbersApart) {
  EXPECT_EQ(worse_than_text(0.412, 0.437, Mode::kMax), "0.412 < cutoff 0.437");
  EXPECT_EQ(worse_than_text(-0.52, -0.41, Mode::kMin), "0.52 > cutoff 0.41");
  EXPECT_EQ(worse_than_text(1, 1 + 0x1p-52, Mode::kMax), "1 < cutoff 1.0000000000000002");
}

}  // namespace
}  // namespace muster::tune
