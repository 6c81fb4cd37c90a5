#include "muster/formats/transform_chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace muster::formats {
namespace {

using ::testing::HasSubstr;

TEST(TransformChain, HasStepsOneBehindTheOther) {
  const auto steps = parse_transform_chain(" a:x=1,y=[2,3] | b\n|c : z=4 ");
  ASSERT_EQ(steps.size(), 3);
  EXPECT_EQ(steps[0].name, "a");
  EXPECT_EQ(steps[0].params, (ParamValues{{"x", "1"}, {"y", "[2,3]"}}));
  EXPECT_EQ(steps[1].name, "b");
  EXPECT_TRUE(steps[1].params.empty() && steps[1].inside.empty());
  EXPECT_EQ(steps[2].name, "c");
  EXPECT_EQ(steps[2].params, (ParamValues{{"z", "4"}}));
  EXPECT_TRUE(parse_transform_chain(" \n").empty());
}

TEST(TransformChain, HasStepsInParenthesesBehindAName) {
  const auto steps = parse_transform_chain(R"(
      some_of(
        a:x=1 |
        sequential(b | c:y=2):p=0.5 |
        d
      ):n=2,p=1
      | e)");
  ASSERT_EQ(steps.size(), 2);
  EXPECT_EQ(steps[0].name, "some_of");
  EXPECT_EQ(steps[0].params, (ParamValues{{"n", "2"}, {"p", "1"}}));
  ASSERT_EQ(steps[0].inside.size(), 3);
  EXPECT_EQ(steps[0].inside[0].params, (ParamValues{{"x", "1"}}));
  const ChainStep& inner = steps[0].inside[1];
  EXPECT_EQ(inner.name, "sequential");
  EXPECT_EQ(inner.params, (ParamValues{{"p", "0.5"}}));
  ASSERT_EQ(inner.inside.size(), 2);
  EXPECT_EQ(inner.inside[1].name, "c");
  EXPECT_EQ(inner.inside[1].params, (ParamValues{{"y", "2"}}));
  EXPECT_EQ(steps[0].inside[2].name, "d");
  EXPECT_EQ(steps[1].name, "e");
}

std::string refused(const std::string& text) {
  return test::error_of([&] { parse_transform_chain(text); });
}

TEST(TransformChain, RefusesWhatIsNone) {
  for (const char* text : {"a||b", "|", "a|", "a()", "a(b|)", "(a)", ":x=1", "a(|b)"})
    EXPECT_THAT(refused(text), HasSubstr("each step is name:key=value")) << text;
  for (const char* text : {"a(b", "a(b))", "a)b(", "a(b(c)", ")"})
    EXPECT_THAT(refused(text), HasSubstr("each ( has its )")) << text;
  for (const char* text : {"a(b)c", "a(b):x=1|c(d)e", "a(b)(c)"})
    EXPECT_THAT(refused(text), HasSubstr("behind steps in parentheses")) << text;
  for (const char* text : {"a:x=(b)", "a:(b)", "a(b):x=(1)"})
    EXPECT_THAT(refused(text), HasSubstr("right behind a name")) << text;
  EXPECT_THAT(refused("a(b)(c)"), HasSubstr("(got \"a(b)(c)\")"));
  std::string deep;
  for (int i = 0; i < kMaxChainDepth; ++i) deep = "a(" + (deep.empty() ? "b" : deep) + ")";
  EXPECT_EQ(parse_transform_chain(deep).size(), 1);
  EXPECT_THAT(refused("a(" + deep + ")"), HasSubstr("at most 16 deep"));
}

}  // namespace
}  // namespace muster::formats
