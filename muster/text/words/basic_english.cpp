#include "muster/text/words/basic_english.h"

#include <array>
#include <cstdint>

#include "muster/text/unicode/properties.h"
#include "muster/text/unicode/utf8.h"

namespace muster::text {
namespace {

enum class Kind : uint8_t { kLetter, kMark, kGap, kLessThan, kBeyondAscii };

constexpr std::array<Kind, 256> make_kinds() {
  std::array<Kind, 256> kinds{};
  for (size_t c = 0; c < kinds.size(); ++c) {
    kinds[c] = c >= 0x80                                   ? Kind::kBeyondAscii
               : is_python_space(static_cast<char32_t>(c)) ? Kind::kGap
                                                           : Kind::kLetter;
  }
  for (const char c : {'\'', '.', ',', '(', ')', '!', '?'})
    kinds[static_cast<size_t>(c)] = Kind::kMark;
  for (const char c : {';', ':'}) kinds[static_cast<size_t>(c)] = Kind::kGap;
  kinds['<'] = Kind::kLessThan;
  return kinds;
}

constexpr std::array<Kind, 256> kKinds = make_kinds();
constexpr std::string_view kBreak = "<br />";

/// Lower case without `"`; into `out`, which then stays where it is.
void lower_without_quotes(std::string_view text, std::string& out) {
  if (ascii_prefix(text) != text.size()) {
    python_lower(text, out);
    std::erase(out, '"');
    return;
  }
  out.resize(text.size());
  size_t size = 0;
  for (const char c : text) {
    out[size] = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    size += c != '"';
  }
  out.resize(size);
}

}  // namespace

void basic_english(std::string_view text, Words& out) {
  check_utf8(text, "a text to split into words");
  lower_without_quotes(text, out.text);
  out.words.clear();
  const std::string_view all = out.text;
  size_t begin = 0;  // of the word under way
  const auto end_word = [&](size_t at, size_t next) {
    if (at > begin) out.words.push_back(all.substr(begin, at - begin));
    begin = next;
  };
  for (size_t at = 0; at < all.size();) {
    size_t bytes = 1;
    switch (kKinds[static_cast<uint8_t>(all[at])]) {
      case Kind::kLetter:
        break;
      case Kind::kMark:
        end_word(at, at + 1);
        out.words.push_back(all.substr(at, 1));
        break;
      case Kind::kGap:
        end_word(at, at + 1);
        break;
      case Kind::kLessThan:
        if (all.substr(at, kBreak.size()) == kBreak) {
          bytes = kBreak.size();
          end_word(at, at + bytes);
        }
        break;
      case Kind::kBeyondAscii: {
        const CodePoint c = first_code_point(all.substr(at));
        bytes = c.bytes;
        if (is_python_space(c.value)) end_word(at, at + bytes);
        break;
      }
    }
    at += bytes;
  }
  end_word(all.size(), all.size());
}

std::vector<std::string> basic_english(std::string_view text) {
  Words words;
  basic_english(text, words);
  return {words.words.begin(), words.words.end()};
}

}  // namespace muster::text
