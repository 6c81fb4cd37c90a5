// GPT-2's alphabet for bytes: each byte is a visible letter, so that a vocabulary of bytes can be
// written as text. A blank is U+0120.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster::text {

constexpr std::array<char32_t, 256> make_byte_letters() {
  std::array<char32_t, 256> out{};
  char32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool visible =
        (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    out[byte] = visible ? byte : next++;
  }
  return out;
}

inline constexpr std::array<char32_t, 256> kByteLetters = make_byte_letters();
inline constexpr char32_t kByteLetterOfBlank = kByteLetters[' '];

/// The bytes as letters.
std::string byte_letters(std::string_view bytes);

/// The byte that a letter stands for.
std::optional<uint8_t> byte_of_letter(char32_t letter);

}  // namespace muster::text
