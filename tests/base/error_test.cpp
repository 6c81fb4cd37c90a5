#include "muster/base/error.h"

#include <errno.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(Error, SaysWhatWasRefusedTheRuleTheValueAndTheNextStep) {
  const Error error = usage_error({.refused = "world size 0",
                                   .rule = "the world size is at least 1",
                                   .value = "WORLD_SIZE=0",
                                   .hint = "start the program with `muster run`"});
  EXPECT_STREQ(error.what(),
               "world size 0: the world size is at least 1 (got WORLD_SIZE=0)\n"
               "hint: start the program with `muster run`");
}

TEST(Error, LeavesEmptyPartsOut) {
  EXPECT_STREQ(usage_error({.refused = "no such file: x"}).what(), "no such file: x");
  EXPECT_STREQ(usage_error({.rule = "a number is needed", .value = "x"}).what(),
               "a number is needed (got x)");
}

TEST(Error, HasAnExitCodePerKind) {
  EXPECT_EQ(usage_error({}).exit_code(), 2);
  EXPECT_EQ(environment_error({}).exit_code(), 1);
  EXPECT_EQ(internal_error({}).exit_code(), 1);
}

TEST(Error, AsksForAReportOfOurOwnBugs) {
  EXPECT_NE(std::string(internal_error({.refused = "x"}).what()).find("please report"),
            std::string::npos);
}

TEST(ErrnoText, NamesTheNumber) {
  EXPECT_EQ(errno_text(ENOSPC), "No space left on device (ENOSPC)");
  EXPECT_EQ(errno_text(123456), "error 123456");
}

}  // namespace
}  // namespace muster
