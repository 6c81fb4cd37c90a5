#include "muster/text/subword/byte_alphabet.h"

#include "muster/text/unicode/utf8.h"

namespace muster::text {
namespace {

constexpr size_t kLetterLimit = 0x180;

constexpr std::array<int16_t, kLetterLimit> make_bytes_of_letters() {
  std::array<int16_t, kLetterLimit> out{};
  for (int16_t& byte : out) byte = -1;
  for (size_t byte = 0; byte < 256; ++byte) out[kByteLetters[byte]] = static_cast<int16_t>(byte);
  return out;
}

constexpr std::array<int16_t, kLetterLimit> kBytesOfLetters = make_bytes_of_letters();

}  // namespace

std::string byte_letters(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char byte : bytes) append_utf8(out, kByteLetters[static_cast<uint8_t>(byte)]);
  return out;
}

std::optional<uint8_t> byte_of_letter(char32_t letter) {
  if (letter >= kLetterLimit || kBytesOfLetters[letter] < 0) return std::nullopt;
  return static_cast<uint8_t>(kBytesOfLetters[letter]);
}

}  // namespace muster::text
