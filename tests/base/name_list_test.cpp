// Lists of names as users say them.
#include "muster/base/name_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(NameList, IsOneNameOrSeveralInBrackets) {
  EXPECT_THAT(names_in("a"), ElementsAre("a"));
  EXPECT_THAT(names_in("[a, b ,]"), ElementsAre("a", "b"));
  EXPECT_THAT(names_in(""), ElementsAre(""));
  EXPECT_THAT(names_in("[]"), IsEmpty());
  EXPECT_THAT(names_in("[\"\"]"), ElementsAre(""));
}

TEST(NameList, InBracketsNamesMayStandInQuotes) {
  EXPECT_THAT(names_in("[\"a,b\"]"), ElementsAre("a,b"));
  EXPECT_THAT(names_in("[x, \"a, \"\"b\"\"\" ,\" y \"]"), ElementsAre("x", "a, \"b\"", " y "));
  EXPECT_THAT(names_in("\"a\""), ElementsAre("\"a\"")) << "outside of them they are letters";
  EXPECT_THAT(names_in("[\"a,b]"), ElementsAre("\"a", "b")) << "so is one without its other one";
  EXPECT_THAT(names_in("[\"a\"b,c]"), ElementsAre("\"a\"b", "c"));
}

TEST(NameList, ASingleNameMayHaveACommaToo) {
  EXPECT_EQ(name_in("a"), "a");
  EXPECT_EQ(name_in("[\"a,b\"]"), "a,b");
  EXPECT_EQ(name_in("[a]"), "[a]");
}

TEST(NameList, ANameIsSaidAsItIsRead) {
  EXPECT_EQ(name_text("a b"), "a b");
  for (const char* name : {"a", "a,b", " a", "\"a\"", "say \"a\", twice", "[a]", "[a", "a]", ""})
    EXPECT_THAT(names_in(name_text(name)), ElementsAre(name));
}

}  // namespace
}  // namespace muster
