#include "muster/track/utf8.h"

#include <cstdint>

namespace muster::track {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

uint8_t byte_at(std::string_view text, size_t at) { return static_cast<uint8_t>(text[at]); }

/// Bytes of the code point that starts at `at`, or 0 if none is valid there.
/// Source: RFC 3629, section 4.
size_t code_point_bytes(std::string_view text, size_t at) {
  const uint8_t lead = byte_at(text, at);
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  const size_t bytes = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (bytes > text.size() - at) return 0;
  // The second byte's range is narrower behind four leads: overlong, surrogate, overlong, too high.
  const uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (byte_at(text, at + 1) < low || byte_at(text, at + 1) > high) return 0;
  for (size_t i = 2; i < bytes; ++i) {
    if (byte_at(text, at + i) >> 6 != 2) return 0;
  }
  return bytes;
}

std::string_view escaped(std::string_view code_point) {
  const char first = code_point[0];
  if (first == '&') return "&amp;";
  if (first == '<') return "&lt;";
  if (first == '>') return "&gt;";
  if (first == '"') return "&quot;";
  if (first == '\'') return "&#39;";
  const auto byte = static_cast<uint8_t>(first);
  const bool control = (byte < 0x20 && first != '\t' && first != '\n' && first != '\r') ||
                       byte == 0x7f || code_point == "\xef\xbf\xbe" || code_point == "\xef\xbf\xbf";
  return control ? kReplacement : code_point;
}

template <class Map>
std::string map_code_points(std::string_view text, Map map) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = code_point_bytes(text, at);
    out += bytes == 0 ? kReplacement : map(text.substr(at, bytes));
    at += bytes == 0 ? 1 : bytes;
  }
  return out;
}

}  // namespace

std::string to_utf8(std::string_view text) {
  return map_code_points(text, [](std::string_view code_point) { return code_point; });
}

std::string escape_xml(std::string_view text) { return map_code_points(text, escaped); }

}  // namespace muster::track
