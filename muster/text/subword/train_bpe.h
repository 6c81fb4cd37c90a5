// Learning a byte-level BPE from texts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/text/vocab/counter.h"

namespace muster::text {

struct BpeTraining {
  int64_t vocab_size = 30000;               ///< with special tokens and the 256 bytes
  int64_t min_frequency = 0;                ///< pairs that are rarer are not merged
  std::vector<std::string> special_tokens;  ///< get the first ids
  bool add_prefix_space = false;            ///< texts are split as if a blank stood before them
};

/// Takes texts one by one and keeps the words with their counts; splits as GPT-2 does.
class BpeTrainer {
 public:
  /// Throws a usage error for special tokens that are empty, there twice, or too many.
  explicit BpeTrainer(BpeTraining options);

  /// Throws a usage error if the text is not UTF-8.
  void add(std::string_view text);

  /// A tokenizer.json with the merges that `tokenizers`' BpeTrainer learns from the same texts (with
  /// its ByteLevel alphabet and pre-tokenizer): the most frequent pair first, of equally frequent
  /// ones that of lower ids. Source: Sennrich, Haddow, Birch 2016, algorithm 1.
  std::string tokenizer_json() const;

 private:
  BpeTraining options_;
  Counter words_;  // of bytes
};

}  // namespace muster::text
