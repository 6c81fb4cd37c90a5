// From a text to tokens: the way through all parts of a tokenizer.
#include <algorithm>
#include <utility>

#include "muster/text/subword/byte_alphabet.h"
#include "muster/text/subword/tokenizer_parts.h"
#include "muster/text/unicode/properties.h"
#include "muster/text/unicode/utf8.h"

namespace muster::text {
namespace {

/// Rewrites the text piece by piece; pieces that become empty are gone.
template <class Rewrite>
void rewrite_pieces(EncodeRoom& room, Rewrite rewrite) {
  const AlignedText& from = room.texts[room.now];
  AlignedText& to = room.texts[1 - room.now];
  Rewriter out(from, to);
  room.parts.clear();
  for (const Piece& piece : room.pieces) {
    const uint32_t begin = out.size();
    if (piece.token != Piece::kNoToken) {
      out.keep(piece.begin, piece.end);
    } else {
      rewrite(from, piece, out);
    }
    if (out.size() > begin) room.parts.push_back({begin, out.size(), piece.token});
  }
  out.commit();
  room.now = 1 - room.now;
  room.pieces.swap(room.parts);
}

bool is_ascii(std::string_view text) { return ascii_prefix(text) == text.size(); }

/// `bytes` is at a code point of `text`.
uint32_t step_forward(std::string_view text, uint32_t bytes, uint32_t code_points, uint32_t limit) {
  for (; code_points > 0 && bytes < limit; --code_points)
    bytes += first_code_point(text.substr(bytes)).bytes;
  return std::min(bytes, limit);
}

}  // namespace

TokenSpace space_of(std::string_view token) {
  const auto is_space = [](char32_t c) { return c == kByteLetterOfBlank || is_white_space(c); };
  TokenSpace out;
  for (std::string_view rest = token; !rest.empty();) {
    const CodePoint c = first_code_point(rest);
    if (!is_space(c.value)) break;
    rest.remove_prefix(c.bytes);
    ++out.leading;
  }
  for (std::string_view rest = token; !rest.empty();) {
    const CodePoint c = last_code_point(rest);
    if (!is_space(c.value)) break;
    rest.remove_suffix(c.bytes);
    ++out.trailing;
  }
  return out;
}

void Tokenizer::Parts::add_piece_parts(EncodeRoom& room, const TokenFinder& finder) const {
  if (finder.empty()) return;
  room.parts.clear();
  for (const Piece& piece : room.pieces) {
    if (piece.token != Piece::kNoToken) {
      room.parts.push_back(piece);
    } else {
      finder.split(room.texts[room.now], piece, room.parts);
    }
  }
  room.pieces.swap(room.parts);
}

void Tokenizer::Parts::find_words(std::string_view text, EncodeRoom& room) const {
  room.now = 0;
  room.texts[0].start(text);
  room.pieces.clear();
  if (!text.empty()) room.pieces.push_back({0, static_cast<uint32_t>(text.size())});
  add_piece_parts(room, added.plain());
  for (const auto& step : normalizers) {
    if (step->leaves_ascii() && is_ascii(room.texts[room.now].text())) continue;
    rewrite_pieces(room, [&](const AlignedText& from, const Piece& piece, Rewriter& out) {
      step->apply(from, piece, out, room.normalizer);
    });
  }
  add_piece_parts(room, added.normalized());
  for (const auto& step : pre_tokenizers.steps) {
    const AlignedText& now = room.texts[room.now];
    const bool rewrites =
        std::any_of(room.pieces.begin(), room.pieces.end(), [&](const Piece& piece) {
          return piece.token == Piece::kNoToken && step->rewrites(now, piece);
        });
    if (rewrites) {
      rewrite_pieces(room, [&](const AlignedText& from, const Piece& piece, Rewriter& out) {
        step->rewrite(from, piece, out);
      });
    }
    room.parts.clear();
    for (const Piece& piece : room.pieces) {
      if (piece.token != Piece::kNoToken) {
        room.parts.push_back(piece);
      } else {
        step->split(room.texts[room.now], piece, room.matches, room.parts);
      }
    }
    room.pieces.swap(room.parts);
  }
}

std::span<const ModelToken> Tokenizer::Parts::tokens_of(std::string_view word,
                                                        EncodeRoom& room) const {
  const bool short_enough = word.size() <= WordCache::kLongestWord;
  const uint64_t hash = short_enough ? hash_of(word) : 0;
  if (short_enough) {
    const WordCache::Range found = room.cache.find(word, hash);
    if (found.count > 0) return std::span(room.cache.tokens()).subspan(found.begin, found.count);
  }
  room.tokens.clear();
  model->tokenize(word, room.model, room.tokens);
  if (short_enough && !room.tokens.empty() && room.tokens.size() <= UINT16_MAX)
    room.cache.insert(word, hash, room.tokens);
  return room.tokens;
}

Encoding Tokenizer::Parts::encode(std::string_view text, uint32_t type_id) const {
  std::unique_ptr<EncodeRoom> room = rooms.acquire();
  find_words(text, *room);
  Encoding out;
  const size_t guess = room->pieces.size() + room->pieces.size() / 2 + 4;
  out.ids.reserve(guess), out.offsets.reserve(guess), out.words.reserve(guess);
  const AlignedText& aligned = room->texts[room->now];
  int32_t word = 0;
  for_each_word(*room, [&](const Piece& piece, std::span<const ModelToken> tokens) {
    uint32_t at = piece.begin;
    for (const ModelToken& token : tokens) {
      // Bytes that a model left out may make the others end too late: within the word all the same.
      const uint32_t end = std::min(at + token.bytes, piece.end);
      const ByteSpan span = aligned.original(std::min(at, end - 1), end);
      out.ids.push_back(token.id);
      out.offsets.push_back({span.begin, span.end});
      out.words.push_back(word);
      at = end;
    }
    ++word;
  });
  rooms.give(std::move(room));
  out.type_ids.assign(out.size(), type_id);
  out.special_tokens_mask.assign(out.size(), 0);
  out.attention_mask.assign(out.size(), 1);
  return out;
}

void Tokenizer::Parts::trim_offsets(std::string_view text, Encoding& encoding) const {
  for (Encoding& part : encoding.overflowing) trim_offsets(text, part);
  for (size_t i = 0; i < encoding.size(); ++i) {
    TextSpan& span = encoding.offsets[i];
    const uint32_t id = encoding.ids[i];
    TokenSpace space = added.token(id) != nullptr
                           ? space_of(text.substr(span.begin, span.end - span.begin))
                       : id < spaces.size() ? spaces[id]
                                            : TokenSpace();
    // The blank that was put before the first word is not in the text.
    const bool first = i == 0 || span.begin == 0;
    if (first && space.leading == 1 && post_processor.trim->keeps_prefix_space) space.leading = 0;
    span.begin = step_forward(text, span.begin, space.leading, span.end);
    uint32_t end = span.end;
    uint32_t left = space.trailing;
    for (; left > 0 && end > 0; --left) end -= last_code_point(text.substr(0, end)).bytes;
    if (left == 0) span.end = std::max(end, span.begin);
  }
}

}  // namespace muster::text
