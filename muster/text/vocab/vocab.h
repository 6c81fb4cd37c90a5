// A vocabulary: words to ids and back, with torchtext's names and rules.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/text/batch/token_batch.h"
#include "muster/text/vocab/counter.h"
#include "muster/text/vocab/token_table.h"

namespace muster::text {

/// Tokens with the ids 0, 1, … in their order. Reading is safe from any threads at once.
class Vocab {
 public:
  Vocab() = default;

  /// Throws a usage error for a token that is there twice or is not UTF-8.
  explicit Vocab(std::span<const std::string> tokens);

  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }
  bool contains(std::string_view token) const { return find(token).has_value(); }

  /// The id of `token`, else default_index(); without that a usage error that names the token.
  int64_t operator[](std::string_view token) const;
  std::optional<int64_t> find(std::string_view token) const;

  /// What unknown tokens are: usually the id of "<unk>". Any number, also none that is an id.
  void set_default_index(std::optional<int64_t> index) { default_index_ = index; }
  std::optional<int64_t> default_index() const { return default_index_; }

  /// Puts `token` where `index` is, in [0, size()]; later ids grow by one, the default index stays.
  /// Throws a usage error if the token is there or the index is not in range.
  void insert_token(std::string_view token, int64_t index);
  void append_token(std::string_view token) { insert_token(token, size()); }

  /// Throws a usage error for an id that is not in [0, size()).
  const std::string& lookup_token(int64_t index) const;
  std::vector<std::string> lookup_tokens(std::span<const int64_t> indices) const;

  std::vector<int64_t> lookup_indices(std::span<const std::string> tokens) const;
  std::vector<int64_t> lookup_indices(std::span<const std::string_view> tokens) const;

  std::map<std::string, int64_t> get_stoi() const;
  const std::vector<std::string>& get_itos() const { return tokens_; }

  /// Rows of words as one rectangle of ids, padded and cut by `options`.
  TokenBatch encode(std::span<const std::vector<std::string>> rows,
                    const BatchOptions& options) const;

  /// The words of each row, without its padding.
  std::vector<std::vector<std::string>> decode(const TokenBatch& batch) const;

  bool operator==(const Vocab& other) const {
    return tokens_ == other.tokens_ && default_index_ == other.default_index_;
  }

 private:
  std::vector<std::string> tokens_;
  TokenTable ids_;
  std::optional<int64_t> default_index_;
};

struct VocabOptions {
  int64_t min_freq = 1;               ///< rarer words are left out
  std::vector<std::string> specials;  ///< in this order, each once, whatever they count
  bool special_first = true;          ///< they get the first ids, else the last ones
};

/// Words in the order in which they stand: with Counter::items() the order in which they were first
/// seen, as torchtext.vocab.vocab(ordered_dict) has it. Throws a usage error for a word that is
/// there twice.
Vocab vocab(std::span<const CountedWord> words, const VocabOptions& options = {});
Vocab vocab(const Counter& counter, const VocabOptions& options = {});

/// The most frequent words first, as torchtext.vocab.build_vocab_from_iterator has them. With
/// `max_tokens` the vocabulary has at most so many tokens, specials included; of the others the
/// most frequent ones are kept, and a special among those keeps its place from another word, as
/// there. Throws a usage error if the specials leave no room.
Vocab build_vocab(const Counter& counter,
                  const VocabOptions& options = {},
                  std::optional<int64_t> max_tokens = {});

}  // namespace muster::text
