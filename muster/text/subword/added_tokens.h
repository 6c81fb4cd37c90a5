// Tokens that are found in a text before its words are: `added_tokens` of a tokenizer file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "muster/text/subword/aligned_text.h"
#include "muster/text/subword/id_table.h"
#include "muster/text/subword/normalizer.h"

namespace muster::text {

struct AddedToken {
  uint32_t id = 0;
  std::string content;
  bool single_word = false;  ///< not next to letters
  bool lstrip = false;       ///< with the white space before it
  bool rstrip = false;       ///< and behind it
  bool normalized = true;    ///< is looked for in the normalized text, as it is normalized itself
  bool special = false;      ///< left out when ids are decoded
};

/// Some of the tokens, as they are looked for.
class TokenFinder {
 public:
  void add(const AddedToken& token, std::string content);
  bool empty() const { return patterns_.empty(); }

  /// Parts `piece` of the text at the tokens, leftmost and longest first; all parts go to `out`.
  void split(const AlignedText& text, const Piece& piece, std::vector<Piece>& out) const;

 private:
  struct Pattern {
    std::string content;
    const AddedToken* token;
  };

  const Pattern* match_at(std::string_view text, size_t at) const;

  std::vector<Pattern> patterns_;               // longest first
  std::vector<std::vector<uint32_t>> by_byte_;  // patterns by their first byte
};

class AddedTokens {
 public:
  AddedTokens() = default;
  AddedTokens(const AddedTokens&) = delete;  // finders point to tokens_
  AddedTokens& operator=(const AddedTokens&) = delete;

  /// Throws an environment error for what Muster does not know, and where an id is not the one that
  /// `tokenizers` would give the token.
  void read(const FileJson& json,
            const std::string& where,
            const IdTable& model,
            const NormalizerChain& normalizers);

  const AddedToken* find(std::string_view content) const;
  const AddedToken* token(uint32_t id) const;
  uint32_t id_limit() const { return tokens_.empty() ? 0 : tokens_.rbegin()->first + 1; }
  const std::map<uint32_t, AddedToken>& tokens() const { return tokens_; }

  const TokenFinder& plain() const { return plain_; }            ///< of texts as they are
  const TokenFinder& normalized() const { return normalized_; }  ///< of normalized ones

 private:
  std::map<uint32_t, AddedToken> tokens_;
  std::map<std::string, uint32_t, std::less<>> ids_;
  TokenFinder plain_, normalized_;
};

}  // namespace muster::text
