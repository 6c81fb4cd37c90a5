// What a code point is, by Unicode 15.0 (utf8proc 2.8); the two notions of white space; lower case.
#pragma once

#include <string>
#include <string_view>

namespace muster::text {

bool is_letter(char32_t c);           ///< category L*
bool is_number(char32_t c);           ///< N*
bool is_decimal_digit(char32_t c);    ///< Nd
bool is_punctuation(char32_t c);      ///< P*
bool is_mark(char32_t c);             ///< M*
bool is_nonspacing_mark(char32_t c);  ///< Mn
bool is_other(char32_t c);            ///< C*, unassigned ones among them: control, format, private
bool is_unassigned(char32_t c);       ///< Cn
bool is_word_character(char32_t c);  ///< \w: Alphabetic, M*, Nd, Pc, Join_Control (UTS 18, annex C)

/// Unicode's White_Space: \s of Rust, Oniguruma and PCRE2.
constexpr bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

/// What Python's str.split() splits at: White_Space and the four separators of ASCII.
constexpr bool is_python_space(char32_t c) { return (c >= 0x1C && c <= 0x1F) || is_white_space(c); }

/// The lower case of one code point by itself; U+0130 becomes two (the second is U+0307), all
/// others one.
char32_t simple_lower(char32_t c);

/// str.lower() of Python: simple_lower, U+0130 as two, and a capital sigma at the end of a word as
/// final sigma. Replaces what is in `out`. `text` is valid UTF-8.
/// Source: Unicode 15.0, section 3.13, table 3-17 (Final_Sigma).
void python_lower(std::string_view text, std::string& out);
std::string python_lower(std::string_view text);

}  // namespace muster::text
