#include "muster/track/utf8.h"

#include <random>

#include <gtest/gtest.h>

namespace muster::track {
namespace {

constexpr const char* kBad = "\xef\xbf\xbd";

TEST(Utf8, ValidTextStaysAsItIs) {
  for (const char* text :
       {"", "plain", "größe 损失 🙂", "\x7f", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(to_utf8(text), text);
  }
}

// The malformed sequences of RFC 3629, section 4, and of Unicode 15, table 3-8.
TEST(Utf8, EachByteThatBelongsToNoCodePointIsReplaced) {
  for (const char* one : {"\x80", "\xbf", "\xc0", "\xff", "\xc2", "\xf4"})
    EXPECT_EQ(to_utf8(one), kBad);
  for (const char* two : {"\xc0\x80", "\xe2\x82", "\xc1\xbf"}) {
    EXPECT_EQ(to_utf8(two), std::string(kBad) + kBad);
  }
  for (const char* three : {"\xed\xa0\x80", "\xe0\x80\xaf", "\xf0\x9f\x98"}) {
    EXPECT_EQ(to_utf8(three), std::string(kBad) + kBad + kBad);
  }
  EXPECT_EQ(to_utf8("\xf4\x90\x80\x80").size(), 12u);
  EXPECT_EQ(to_utf8("a\xc3(b"), std::string("a") + kBad + "(b");
}

TEST(EscapeXml, LeavesNothingThatMarkupCouldMistake) {
  EXPECT_EQ(escape_xml("<a href=\"x\">'&"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;");
  EXPECT_EQ(escape_xml("&amp;"), "&amp;amp;");
  EXPECT_EQ(escape_xml("tab\tline\n"), "tab\tline\n");
  EXPECT_EQ(escape_xml(std::string("\0\x1b[0m", 5)), std::string(kBad) + kBad + "[0m");
}

TEST(EscapeXml, OfAnyBytesHoldsNoMarkupAndIsValid) {
  std::mt19937 random(11);
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (size_t n = random() % 12; n > 0; --n) text += static_cast<char>(random());
    const std::string escaped = escape_xml(text);
    ASSERT_EQ(escaped.find_first_of("<>\"'"), std::string::npos);
    ASSERT_EQ(to_utf8(escaped), escaped);
  }
}

}  // namespace
}  // namespace muster::track
