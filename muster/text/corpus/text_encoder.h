// Texts to ids by what was learned from a training split. Torch-free.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/json_fwd.h"
#include "muster/text/subword/tokenizer.h"
#include "muster/text/vocab/vocab.h"

namespace muster::text {

/// Either the words of basic_english() by a vocabulary with <pad> as 0 and <unk> as 1, or the tokens of
/// a tokenizer.json. Texts are cut at their ends to max_length tokens. Reading is for any threads.
class TextEncoder {
 public:
  /// Throws a usage error for a max_length below 1, an environment error for a vocabulary of other
  /// special tokens.
  TextEncoder(Vocab vocab, int64_t max_length);
  /// `json` is a tokenizer.json; `name` stands in errors. Throws as Tokenizer::parse().
  TextEncoder(std::string json, const std::string& name, int64_t max_length);

  /// Appends the ids. A text without a token has one of padding. True: it was cut; of a tokenizer
  /// nobody knows.
  bool append_ids(std::string_view text, std::vector<int64_t>& ids) const;

  int64_t max_length() const { return max_length_; }
  int64_t vocabulary() const { return vocabulary_; }  ///< ids are below it
  /// <pad> of a vocabulary; the tokenizer's own, by its section "padding" or the name [PAD] or <pad>,
  /// else a number behind all of its tokens.
  int64_t padding() const { return padding_; }
  std::optional<int64_t> unknown() const { return unknown_; }
  /// Null with a tokenizer.
  const Vocab* words() const { return tokenizer_ ? nullptr : &vocab_; }

  /// All of it: {"vocabulary": ["<pad>", …]} or {"tokenizer_json": "…"}, and "max_length".
  Json to_json() const;
  /// Throws an environment error for what to_json() does not write.
  static TextEncoder from_json(const Json& json);

 private:
  Vocab vocab_;
  std::optional<Tokenizer> tokenizer_;
  std::string json_;
  int64_t max_length_ = 0, vocabulary_ = 0, padding_ = 0;
  std::optional<int64_t> unknown_;
};

struct LearnOptions {
  std::string tokenizer = "basic_english";  ///< or the path of a tokenizer.json
  int64_t min_freq = 2;    ///< words that are seen less often are unknown; of basic_english
  int64_t max_tokens = 0;  ///< the most frequent ones, specials included; 0: all; of basic_english
  int64_t max_length = 256;
};

/// The words of these texts, the most frequent first, as build_vocab() has them; or the tokenizer.
/// Throws a usage error for numbers below their least, or a tokenizer that is not there.
TextEncoder learn_encoder(std::span<const std::string_view> texts, const LearnOptions& options);

}  // namespace muster::text
