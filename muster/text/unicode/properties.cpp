#include "muster/text/unicode/properties.h"

#include <algorithm>
#include <array>
#include <iterator>

#include <utf8proc.h>

#include "muster/text/unicode/utf8.h"

namespace muster::text {
namespace {

struct CodeRange {
  char32_t first, last;
};

template <size_t Count>
bool lies_in(const CodeRange (&ranges)[Count], char32_t c) {
  const auto* range =
      std::lower_bound(std::begin(ranges), std::end(ranges), c, [](const CodeRange& r, char32_t x) {
        return r.last < x;
      });
  return range != std::end(ranges) && range->first <= c;
}

// Of what utf8proc has no property: PropList.txt (Other_Lowercase, Other_Uppercase) and
// WordBreakProperty.txt (MidLetter, MidNumLet, Single_Quote) of Unicode 15.0.
constexpr CodeRange kOtherCased[] = {
    {0xAA, 0xAA},       {0xBA, 0xBA},       {0x2B0, 0x2B8},     {0x2C0, 0x2C1},
    {0x2E0, 0x2E4},     {0x345, 0x345},     {0x37A, 0x37A},     {0x10FC, 0x10FC},
    {0x1D2C, 0x1D6A},   {0x1D78, 0x1D78},   {0x1D9B, 0x1DBF},   {0x2071, 0x2071},
    {0x207F, 0x207F},   {0x2090, 0x209C},   {0x2160, 0x217F},   {0x24B6, 0x24E9},
    {0x2C7C, 0x2C7D},   {0xA69C, 0xA69D},   {0xA770, 0xA770},   {0xA7F2, 0xA7F4},
    {0xA7F8, 0xA7F9},   {0xAB5C, 0xAB5F},   {0xAB69, 0xAB69},   {0x10780, 0x10780},
    {0x10783, 0x10785}, {0x10787, 0x107B0}, {0x107B2, 0x107BA}, {0x1E030, 0x1E06D},
    {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};
constexpr char32_t kMidWord[] = {0x27,
                                 0x2E,
                                 0x3A,
                                 0xB7,
                                 0x387,
                                 0x55F,
                                 0x5F4,
                                 0x2018,
                                 0x2019,
                                 0x2024,
                                 0x2027,
                                 0xFE13,
                                 0xFE52,
                                 0xFE55,
                                 0xFF07,
                                 0xFF0E,
                                 0xFF1A};
// Other_Alphabetic less marks, which \w has anyway.
constexpr CodeRange kOtherAlphabetic[] = {
    {0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool is_cased(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return kind == UTF8PROC_CATEGORY_LU || kind == UTF8PROC_CATEGORY_LL ||
         kind == UTF8PROC_CATEGORY_LT || lies_in(kOtherCased, c);
}

bool is_case_ignorable(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return std::ranges::find(kMidWord, c) != std::end(kMidWord);
  }
}

/// Of the capital sigma between the two: a cased letter before it, none behind it.
bool is_final_sigma(std::string_view before, std::string_view after) {
  while (!before.empty()) {
    const CodePoint c = last_code_point(before);
    before.remove_suffix(c.bytes);
    if (is_case_ignorable(c.value)) continue;
    if (!is_cased(c.value)) return false;
    while (!after.empty()) {
      const CodePoint next = first_code_point(after);
      after.remove_prefix(next.bytes);
      if (!is_case_ignorable(next.value)) return !is_cased(next.value);
    }
    return true;
  }
  return false;
}

}  // namespace

bool is_letter(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_number(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO;
}

bool is_decimal_digit(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }

bool is_punctuation(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO;
}

bool is_mark(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return kind >= UTF8PROC_CATEGORY_MN && kind <= UTF8PROC_CATEGORY_ME;
}

bool is_nonspacing_mark(char32_t c) { return category(c) == UTF8PROC_CATEGORY_MN; }

bool is_unassigned(char32_t c) { return category(c) == UTF8PROC_CATEGORY_CN; }

bool is_other(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return kind == UTF8PROC_CATEGORY_CN || kind >= UTF8PROC_CATEGORY_CC;
}

bool is_word_character(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return (kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_ND) ||
         kind == UTF8PROC_CATEGORY_NL || kind == UTF8PROC_CATEGORY_PC || c == 0x200C ||
         c == 0x200D || lies_in(kOtherAlphabetic, c);
}

char32_t simple_lower(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

void python_lower(std::string_view text, std::string& out) {
  out.clear();
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = first_code_point(text.substr(at));
    if (c.value < 0x80) {
      out.push_back(static_cast<char>(simple_lower(c.value)));
    } else if (c.value == 0x3A3) {
      append_utf8(out, is_final_sigma(text.substr(0, at), text.substr(at + 2)) ? 0x3C2 : 0x3C3);
    } else {
      append_utf8(out, simple_lower(c.value));
      if (c.value == 0x130) append_utf8(out, 0x307);
    }
    at += c.bytes;
  }
}

std::string python_lower(std::string_view text) {
  std::string out;
  python_lower(text, out);
  return out;
}

}  // namespace muster::text
