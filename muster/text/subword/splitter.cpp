#include "muster/text/subword/splitter.h"

#include <array>

#include "muster/text/unicode/peer_tables.h"
#include "muster/text/unicode/properties.h"
#include "muster/text/unicode/utf8.h"

namespace muster::text {
namespace {

enum class Letter : uint8_t { kLetter, kNumber, kSpace, kOther };

constexpr std::array<Letter, 128> make_ascii() {
  std::array<Letter, 128> out{};
  for (size_t c = 0; c < out.size(); ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    out[c] = letter                                     ? Letter::kLetter
             : c >= '0' && c <= '9'                     ? Letter::kNumber
             : is_white_space(static_cast<char32_t>(c)) ? Letter::kSpace
                                                        : Letter::kOther;
  }
  return out;
}

constexpr std::array<Letter, 128> kAscii = make_ascii();

/// Walks over code points by kind.
class Cursor {
 public:
  Cursor(std::string_view text, uint32_t end) : text_(text), end_(end) {}

  /// The kind of what stands at `at` < end, and where the next begins.
  Letter kind(uint32_t at, uint32_t& next) const {
    const auto byte = static_cast<uint8_t>(text_[at]);
    if (byte < 0x80) {
      next = at + 1;
      return kAscii[byte];
    }
    const CodePoint c = first_code_point(text_.substr(at));
    next = at + c.bytes;
    return is_peer_letter(c.value)   ? Letter::kLetter
           : is_peer_number(c.value) ? Letter::kNumber
           : is_white_space(c.value) ? Letter::kSpace
                                     : Letter::kOther;
  }

  /// The end of the run of `wanted` that begins at `at`; `last`: where its last code point does.
  uint32_t run(uint32_t at, Letter wanted, uint32_t& last) const {
    uint32_t next = at;
    while (at < end_ && kind(at, next) == wanted) {
      last = at;
      at = next;
    }
    return at;
  }

  /// The end of 's, 't, 're, 've, 'm, 'll or 'd at `at`, where an apostrophe stands; or `at`.
  uint32_t contraction(uint32_t at) const {
    const char a = at + 1 < end_ ? text_[at + 1] : '\0', b = at + 2 < end_ ? text_[at + 2] : '\0';
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return at + 2;
    const bool two = (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l');
    return two ? at + 3 : at;
  }

 private:
  std::string_view text_;
  uint32_t end_;
};

}  // namespace

void split_as_gpt2(std::string_view text, const Piece& piece, std::vector<Piece>& out) {
  const Cursor cursor(text, piece.end);
  for (uint32_t at = piece.begin; at < piece.end;) {
    uint32_t next = at, last = at;
    Letter kind = cursor.kind(at, next);
    if (text[at] == '\'') {
      const uint32_t end = cursor.contraction(at);
      if (end > at) {
        out.push_back({at, end});
        at = end;
        continue;
      }
    }
    uint32_t from = at;
    if (text[at] == ' ' && next < piece.end) {  // a blank goes with the word behind it
      uint32_t behind = next;
      const Letter its_kind = cursor.kind(next, behind);
      if (its_kind != Letter::kSpace) {
        kind = its_kind;
        from = next;
      }
    }
    uint32_t end = cursor.run(from, kind, last);
    // Of several spaces before a word the last one is left to it.
    if (kind == Letter::kSpace && end < piece.end && last > at) end = last;
    out.push_back({at, end});
    at = end;
  }
}

}  // namespace muster::text
