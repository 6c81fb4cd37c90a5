// UTF-8: what is valid, and code points one by one. Torch-free, as the whole room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "muster/formats/utf8.h"

namespace muster::text {

struct CodePoint {
  char32_t value = 0;
  uint32_t bytes = 0;  ///< that it takes in UTF-8
};

/// The code point at the start of `text`, which is not empty and valid UTF-8.
inline CodePoint first_code_point(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<uint8_t>(text[i])); };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (lead < 0xF0) return {(lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F),
          4};
}

/// False for a byte that goes on with a code point.
inline bool starts_code_point(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) != 0x80; }

/// The last code point of `text`, which is not empty and valid UTF-8.
inline CodePoint last_code_point(std::string_view text) {
  size_t at = text.size() - 1;
  while (!starts_code_point(text[at])) --at;
  return first_code_point(text.substr(at));
}

inline uint32_t utf8_bytes(char32_t c) {
  return c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
}

void append_utf8(std::string& out, char32_t c);

using formats::ascii_prefix;
using formats::valid_utf8_prefix;

/// Throws a usage error that names `what` and the first byte that is not UTF-8.
void check_utf8(std::string_view text, std::string_view what);

/// Of valid UTF-8.
size_t count_code_points(std::string_view text);

}  // namespace muster::text
