#include "muster/text/unicode/utf8.h"

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::text {

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  const auto tail = [&](int shift) { put(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6), tail(0);
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12), tail(6), tail(0);
  } else {
    put(0xF0 | c >> 18), tail(12), tail(6), tail(0);
  }
}

void check_utf8(std::string_view text, std::string_view what) {
  const size_t valid = valid_utf8_prefix(text);
  if (valid == text.size()) return;
  static constexpr char kDigits[] = "0123456789abcdef";
  const auto byte = static_cast<uint8_t>(text[valid]);
  throw usage_error(
      {.refused = std::string(what),
       .rule = "text is UTF-8",
       .value = concat(
           "byte 0x", kDigits[byte >> 4], kDigits[byte & 15], " at ", valid, " of ", text.size()),
       .hint = "convert it first: iconv -t UTF-8"});
}

size_t count_code_points(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), starts_code_point));
}

}  // namespace muster::text
