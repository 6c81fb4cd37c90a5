// A text on its way through a tokenizer, which still knows where each byte came from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::text {

/// Bytes [begin, end) of the original text.
struct ByteSpan {
  uint32_t begin = 0;
  uint32_t end = 0;
};

/// Part of an AlignedText, on its way to tokens, or a token that was found already.
struct Piece {
  static constexpr uint32_t kNoToken = UINT32_MAX;

  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t token = kNoToken;  ///< an added token's id
};

/// A code point of the new text, and what it does to the old one: 0 takes the place of one code
/// point, 1 is inserted, -n takes the place of one and removes n behind it.
struct Change {
  char32_t c = 0;
  int change = 0;
};

/// Note [Alignment]: each byte of the text has the span of the original that it stands for, as
/// `tokenizers` has it: all bytes of a code point have the same one; what takes the place of a code
/// point has that one's, what is inserted has that of the byte before it in the old text. As long as
/// every byte is where it was (nothing changed, or one ASCII letter became another) no spans are
/// stored: `in_place`.
class AlignedText {
 public:
  AlignedText() = default;
  AlignedText(const AlignedText&) = delete;  // text_ may view own_
  AlignedText& operator=(const AlignedText&) = delete;

  /// Views `original`, which stays as long as this does or is written to.
  void start(std::string_view original);

  std::string_view text() const { return text_; }
  std::string_view text(const Piece& piece) const {
    return text_.substr(piece.begin, piece.end - piece.begin);
  }

  /// What [begin, end) of the text, not empty, stands for.
  ByteSpan original(uint32_t begin, uint32_t end) const;

  /// Where the original of a piece begins.
  uint32_t original_begin(const Piece& piece) const;

 private:
  friend class Rewriter;

  ByteSpan span_at(uint32_t at) const;

  std::string_view text_;  // of the original, or of own_
  size_t original_bytes_ = 0;
  std::string own_;
  std::vector<ByteSpan> spans_;  // of each byte of own_; none if in place
  bool in_place_ = true;
};

/// Writes a text anew from an older one, from its start to its end. Throws an environment error if it
/// becomes more than 64 times as long as the original: a file can ask for a text that doubles often.
class Rewriter {
 public:
  Rewriter(const AlignedText& from, AlignedText& to);

  /// Bytes [begin, end) of the old text as they are.
  void keep(uint32_t begin, uint32_t end);

  /// An ASCII letter in the place of byte `at`, which is one as well.
  void replace_ascii(uint32_t at, char c);

  /// The changes of a part of the old text that begins at `begin`, of a piece that begins at
  /// `piece_begin`; `skipped` bytes at the part's start were removed.
  void change(const Piece& piece,
              uint32_t begin,
              uint32_t skipped,
              const std::vector<Change>& changes);

  /// `text`, which stands for `span`.
  void put(std::string_view text, ByteSpan span);

  uint32_t size() const { return static_cast<uint32_t>(to_.own_.size()); }

  /// The new text can be read.
  void commit();

 private:
  void store_spans();
  void check_growth() const;

  const AlignedText& from_;
  AlignedText& to_;
};

}  // namespace muster::text
