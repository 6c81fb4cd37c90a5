#include "muster/formats/utf8.h"

#include <cstdint>
#include <cstring>

#include "muster/base/text.h"

namespace muster::formats {
namespace {

/// Bytes of the well-formed sequence at `at`, or 0.
size_t sequence_bytes(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) -> uint32_t {
    return at + i < text.size() ? static_cast<uint8_t>(text[at + i]) : 0;
  };
  const auto within = [&](size_t i, uint32_t low, uint32_t high) {
    return byte(i) >= low && byte(i) <= high;
  };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  if (lead < 0xE0) return within(1, 0x80, 0xBF) ? 2 : 0;
  const uint32_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const uint32_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (!within(1, low, high) || !within(2, 0x80, 0xBF)) return 0;
  if (lead < 0xF0) return 3;
  return within(3, 0x80, 0xBF) ? 4 : 0;
}

/// Where the next byte of 0x80 or above is, from `at` on.
size_t end_of_ascii(std::string_view text, size_t at) {
  for (; at + 8 <= text.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + at, 8);
    if ((word & 0x8080808080808080U) != 0) break;
  }
  while (at < text.size() && static_cast<uint8_t>(text[at]) < 0x80) ++at;
  return at;
}

}  // namespace

size_t ascii_prefix(std::string_view text) { return end_of_ascii(text, 0); }

size_t valid_utf8_prefix(std::string_view text) {
  size_t at = end_of_ascii(text, 0);
  while (at < text.size()) {
    const size_t bytes = sequence_bytes(text, at);
    if (bytes == 0) return at;
    at += bytes;
    if (at < text.size() && static_cast<uint8_t>(text[at]) < 0x80) at = end_of_ascii(text, at);
  }
  return at;
}

std::string utf8_fault(std::string_view text) {
  const size_t valid = valid_utf8_prefix(text);
  if (valid == text.size()) return {};
  return concat("not UTF-8 after its ", valid, valid == 1 ? " first byte" : " first bytes");
}

std::string class_fault(std::string_view name) {
  const std::string fault = utf8_fault(name);
  return fault.empty() ? fault : concat("the class is ", fault);
}

std::string_view without_utf8_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text;
}

}  // namespace muster::formats
