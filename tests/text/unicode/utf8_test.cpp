#include "muster/text/unicode/utf8.h"

#include <gtest/gtest.h>

#include "muster/text/unicode/normal_form.h"
#include "muster/text/unicode/properties.h"

namespace muster::text {
namespace {

TEST(Utf8, EachCodePointReadsBackAndIsValid) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c == 0xD800) c = 0xE000;
    std::string text;
    append_utf8(text, c);
    ASSERT_EQ(text.size(), utf8_bytes(c));
    ASSERT_EQ(valid_utf8_prefix(text), text.size());
    ASSERT_EQ(first_code_point(text).value, c);
    ASSERT_EQ(last_code_point("a" + text).value, c);
  }
}

// Unicode 15.0, section 3.9: surrogates, overlong forms, above the last code point, cut off.
TEST(Utf8, IllFormedSequencesEndWhatIsValid) {
  for (const char* bad : {"\xED\xA0\x80",
                          "\xC0\xAF",
                          "\xE0\x9F\xBF",
                          "\xF4\x90\x80\x80",
                          "\xF0\x80\x80\x80",
                          "\xE2\x82",
                          "\x80",
                          "\xFF",
                          "\xF5\x80\x80\x80"}) {
    EXPECT_EQ(valid_utf8_prefix(std::string("ab") + bad), 2U) << bad;
    EXPECT_EQ(valid_utf8_prefix(std::string("123456789\xC3\xA9") + bad + "c"), 11U) << bad;
  }
}

// SpecialCasing.txt: Final_Sigma behind a cased letter, with case-ignorable ones between.
TEST(PythonLower, SigmaIsFinalAtTheEndOfAWordAlone) {
  EXPECT_EQ(python_lower("\u03A3"), "\u03C3");
  EXPECT_EQ(python_lower("A\u03A3"), "a\u03C2");
  EXPECT_EQ(python_lower("A\u03A3B"), "a\u03C3b");
  EXPECT_EQ(python_lower("A'\u03A3'."), "a'\u03C2'.");
  EXPECT_EQ(python_lower("A \u03A3"), "a \u03C3");
  EXPECT_EQ(python_lower("\u0130"), "i\u0307");
}

// UAX 15, figures 3 to 6.
TEST(NormalForm, PartsAndComposites) {
  Decomposition parts;
  ASSERT_EQ(decompose(0x1E69, false, parts), 3U);  // s with dot below and dot above
  EXPECT_EQ(parts[0], U's');
  EXPECT_EQ(parts[1], 0x323U);
  EXPECT_EQ(parts[2], 0x307U);
  EXPECT_EQ(decompose(0xFB01, false, parts), 1U);
  ASSERT_EQ(decompose(0xFB01, true, parts), 2U);  // the ligature fi
  EXPECT_EQ(parts[0], U'f');
  EXPECT_EQ(decompose(0xFDFA, true, parts), 18U);
  EXPECT_EQ(compose(U'e', 0x301), 0xE9U);
  EXPECT_EQ(compose(0x1100, 0x1161), 0xAC00U);  // Hangul
  EXPECT_EQ(compose(0xAC00, 0x11A8), 0xAC01U);
  EXPECT_EQ(compose(0x915, 0x93C), 0U);  // a composition exclusion
  EXPECT_EQ(compose(U'e', U'f'), 0U);
}

}  // namespace
}  // namespace muster::text
