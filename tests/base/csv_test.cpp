#include "muster/base/csv.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

// RFC 4180, section 2.
TEST(Csv, AFieldIsQuotedWhereItsTextWouldEndIt) {
  EXPECT_EQ(csv_field("cat"), "cat");
  EXPECT_EQ(csv_field(""), "");
  EXPECT_EQ(csv_field("a b"), "a b");
  EXPECT_EQ(csv_field("ü,x"), "\"ü,x\"");
  EXPECT_EQ(csv_field("say \"a\""), "\"say \"\"a\"\"\"");
  EXPECT_EQ(csv_field("two\nlines"), "\"two\nlines\"");
}

}  // namespace
}  // namespace muster
