#include "muster/base/number_rule.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(NumberRule, SaysWhatIsWrongWithANumber) {
  EXPECT_EQ(number_rule("nan"), "a finite number is needed");
  EXPECT_EQ(number_rule("fast"), "a number is needed");
  EXPECT_TRUE(number_rule("1e400").starts_with("a number of at most 1.8e308"));
}

TEST(OverflowRule, TellsNumbersThatNothingHoldsFromAllElse) {
  for (const char* text : {"9223372036854775808", "-9223372036854775809", "99999999999999999999"})
    EXPECT_EQ(overflow_rule(text), "a whole number has 64 bits") << text;
  for (const char* text : {"1e400", "-1e400", "1e-400"})
    EXPECT_EQ(overflow_rule(text), "a number fits into a double") << text;
  for (const char* text :
       {"", "-", "x", "1e5", "9223372036854775807", "-9223372036854775808", "1e400x", "inf", "nan"})
    EXPECT_EQ(overflow_rule(text), "") << text;
}

}  // namespace
}  // namespace muster
