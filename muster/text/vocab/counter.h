// How often each word was seen, in the order in which words were first seen: Python's Counter.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/text/vocab/token_table.h"

namespace muster::text {

using CountedWord = std::pair<std::string, int64_t>;

class Counter {
 public:
  void add(std::string_view word, int64_t times = 1);
  void update(std::span<const std::string> words);
  void update(std::span<const std::string_view> words);

  /// 0 for a word that was not seen.
  int64_t count(std::string_view word) const;
  size_t size() const { return items_.size(); }

  /// In the order in which they were first seen.
  const std::vector<CountedWord>& items() const { return items_; }

  /// The most frequent first, those of equal count as UTF-8 bytes sort them, which is by code point:
  /// the order of torchtext's build_vocab_from_iterator.
  std::vector<CountedWord> by_frequency() const;

 private:
  std::vector<CountedWord> items_;
  TokenTable index_;
};

}  // namespace muster::text
