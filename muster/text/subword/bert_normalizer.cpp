#include "muster/text/subword/bert_normalizer.h"

#include <array>

#include "muster/text/subword/normal_forms.h"
#include "muster/text/unicode/peer_tables.h"
#include "muster/text/unicode/properties.h"
#include "muster/text/unicode/utf8.h"

namespace muster::text {
namespace {

/// Goes through a piece: runs of bytes that `is_plain` lets pass are kept, other code points are
/// given to `handle(c, at)`, which writes what becomes of them.
template <class IsPlain, class Handle>
void for_the_others(
    const AlignedText& from, const Piece& piece, Rewriter& out, IsPlain is_plain, Handle handle) {
  const std::string_view text = from.text();
  uint32_t kept = piece.begin;
  for (uint32_t at = piece.begin; at < piece.end;) {
    const auto byte = static_cast<uint8_t>(text[at]);
    if (byte < 0x80 && is_plain(byte)) {
      ++at;
      continue;
    }
    const CodePoint c = first_code_point(text.substr(at));
    if (c.value >= 0x80 && is_plain(c.value)) {
      at += c.bytes;
      continue;
    }
    out.keep(kept, at);
    handle(c.value, at);
    kept = at += c.bytes;
  }
  out.keep(kept, piece.end);
}

class CleanText : public Normalizer {
 public:
  void apply(const AlignedText& from,
             const Piece& piece,
             Rewriter& out,
             NormalizerRoom& room) const override {
    const auto is_plain = [](char32_t c) {
      if (c < 0x80) return c >= ' ' && c != 0x7F;
      return !is_white_space(c) && c != 0xFFFD && !is_bert_control(c);
    };
    for_the_others(from, piece, out, is_plain, [&](char32_t c, uint32_t at) {
      if (c == '\t' || c == '\n' || c == '\r') return out.replace_ascii(at, ' ');
      if (c == 0 || c == 0xFFFD || is_bert_control(c)) return;  // left out
      room.changes.assign(1, {' ', 0});
      out.change(piece, at, 0, room.changes);
    });
  }
};

/// Of the BMP and the supplementary planes, as BERT has them; one range begins later than the block
/// does (2B920 for 2B820), there as here.
bool is_chinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B81F) ||
         (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x2F800 && c <= 0x2FA1F);
}

class ChineseCharacters : public Normalizer {
 public:
  bool leaves_ascii() const override { return true; }

  void apply(const AlignedText& from,
             const Piece& piece,
             Rewriter& out,
             NormalizerRoom& room) const override {
    const auto is_plain = [](char32_t c) { return c < 0x3400 || !is_chinese(c); };
    for_the_others(from, piece, out, is_plain, [&](char32_t c, uint32_t at) {
      room.changes = {{' ', 0}, {c, 1}, {' ', 1}};
      out.change(piece, at, 0, room.changes);
    });
  }
};

class Lowercase : public Normalizer {
 public:
  void apply(const AlignedText& from,
             const Piece& piece,
             Rewriter& out,
             NormalizerRoom& room) const override {
    const auto is_plain = [](char32_t c) {
      return c < 0x80 ? c < 'A' || c > 'Z' : simple_lower(c) == c;
    };
    for_the_others(from, piece, out, is_plain, [&](char32_t c, uint32_t at) {
      if (c < 0x80) return out.replace_ascii(at, static_cast<char>(c + 32));
      room.changes.assign(1, {simple_lower(c), 0});
      if (c == 0x130) room.changes.push_back({0x307, 1});
      out.change(piece, at, 0, room.changes);
    });
  }
};

/// Leaves out marks: all of them, or nonspacing ones as BERT knows them.
class WithoutMarks : public Normalizer {
 public:
  explicit WithoutMarks(bool (*is_mark)(char32_t)) : is_mark_(is_mark) {}

  bool leaves_ascii() const override { return true; }

  void apply(const AlignedText& from,
             const Piece& piece,
             Rewriter& out,
             NormalizerRoom&) const override {
    const auto is_plain = [&](char32_t c) { return c < 0x300 || !is_mark_(c); };
    for_the_others(from, piece, out, is_plain, [](char32_t, uint32_t) {});
  }

 private:
  bool (*is_mark_)(char32_t);
};

}  // namespace

void append_bert_normalizer(const BertOptions& options, NormalizerChain& chain) {
  if (options.clean_text) chain.push_back(std::make_unique<CleanText>());
  if (options.handle_chinese_chars) chain.push_back(std::make_unique<ChineseCharacters>());
  if (options.strip_accents) {
    chain.push_back(make_normal_form(NormalForm::kNfd));
    chain.push_back(std::make_unique<WithoutMarks>(&is_bert_nonspacing_mark));
  }
  if (options.lowercase) chain.push_back(make_lowercase());
}

std::unique_ptr<const Normalizer> make_lowercase() { return std::make_unique<Lowercase>(); }

std::unique_ptr<const Normalizer> make_strip_accents() {
  return std::make_unique<WithoutMarks>(&is_peer_mark);
}

}  // namespace muster::text
