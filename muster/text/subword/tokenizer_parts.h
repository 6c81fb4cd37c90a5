// What stands between a tokenizer file and tokens.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "muster/text/subword/added_tokens.h"
#include "muster/text/subword/decoder.h"
#include "muster/text/subword/model.h"
#include "muster/text/subword/post_processor.h"
#include "muster/text/subword/pre_tokenizer.h"
#include "muster/text/subword/tokenizer.h"
#include "muster/text/subword/word_cache.h"

namespace muster::text {

/// Everything that a call needs while it works, kept for the next one: after the first texts
/// nothing is allocated but what is returned.
struct EncodeRoom {
  std::array<AlignedText, 2> texts;
  size_t now = 0;  // which of them
  std::vector<Piece> pieces, parts;
  std::vector<Match> matches;
  NormalizerRoom normalizer;
  ModelRoom model;
  WordCache cache;
  std::vector<ModelToken> tokens;
};

/// Rooms of calls that have ended. Each call acquires one, so that threads do not share a cache.
class RoomPool {
 public:
  std::unique_ptr<EncodeRoom> acquire() {
    const std::lock_guard lock(mutex_);
    if (rooms_.empty()) return std::make_unique<EncodeRoom>();
    std::unique_ptr<EncodeRoom> room = std::move(rooms_.back());
    rooms_.pop_back();
    return room;
  }

  void give(std::unique_ptr<EncodeRoom> room) {
    const std::lock_guard lock(mutex_);
    rooms_.push_back(std::move(room));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<EncodeRoom>> rooms_;
};

/// White space at the ends of a token, in code points.
struct TokenSpace {
  uint32_t leading = 0;
  uint32_t trailing = 0;
};
TokenSpace space_of(std::string_view token);

struct Tokenizer::Parts {
  NormalizerChain normalizers;
  PreTokenizerChain pre_tokenizers;
  std::unique_ptr<const Model> model;
  AddedTokens added;
  PostProcessor post_processor;
  DecoderChain decoders;
  std::optional<Truncation> truncation;
  std::optional<Padding> padding;
  std::vector<TokenSpace> spaces;  // by id, where offsets are trimmed
  mutable RoomPool rooms;

  /// Throws what read_… throw.
  static std::shared_ptr<const Parts> read(std::string_view json, std::string_view name);

  /// The pieces of `text`, as far as the model: in the room.
  void find_words(std::string_view text, EncodeRoom& room) const;

  /// Calls visit(piece, tokens) for each of them; `tokens` may move with the next call.
  template <class Visit>
  void for_each_word(EncodeRoom& room, Visit visit) const {
    const std::string_view text = room.texts[room.now].text();
    for (const Piece& piece : room.pieces) {
      if (piece.token != Piece::kNoToken) {
        const ModelToken token{piece.token, piece.end - piece.begin};
        visit(piece, std::span(&token, 1));
      } else {
        visit(piece, tokens_of(text.substr(piece.begin, piece.end - piece.begin), room));
      }
    }
  }

  /// A token of `text` by itself, without special tokens; offsets in bytes.
  Encoding encode(std::string_view text, uint32_t type_id) const;

  void trim_offsets(std::string_view text, Encoding& encoding) const;

 private:
  std::span<const ModelToken> tokens_of(std::string_view word, EncodeRoom& room) const;
  void add_piece_parts(EncodeRoom& room, const TokenFinder& finder) const;
};

}  // namespace muster::text
