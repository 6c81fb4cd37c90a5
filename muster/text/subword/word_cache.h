// Words that were taken apart before, with their tokens.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "muster/text/subword/merge.h"
#include "muster/text/vocab/token_table.h"

namespace muster::text {

/// Of one thread. Bounded: when it is full it starts anew, which costs little where words repeat.
class WordCache {
 public:
  static constexpr size_t kLongestWord = 64;

  WordCache() : slots_(kSlots) {}

  const std::vector<ModelToken>& tokens() const { return tokens_; }

  /// The word's tokens as a range of tokens(), or an empty one.
  struct Range {
    uint32_t begin = 0;
    uint32_t count = 0;
  };
  Range find(std::string_view word, uint64_t hash) const {
    for (size_t at = hash & (kSlots - 1);; at = (at + 1) & (kSlots - 1)) {
      const Slot& slot = slots_[at];
      if (slot.count == 0) return {};
      if (slot.tag == static_cast<uint32_t>(hash >> 32) && slot.size == word.size() &&
          std::memcmp(bytes_.data() + slot.word, word.data(), word.size()) == 0)
        return {slot.begin, slot.count};
    }
  }

  /// A word that is not there and has tokens.
  void insert(std::string_view word, uint64_t hash, std::span<const ModelToken> tokens) {
    if (used_ >= kSlots / 2) clear();
    size_t at = hash & (kSlots - 1);
    while (slots_[at].count != 0) at = (at + 1) & (kSlots - 1);
    slots_[at] = {static_cast<uint32_t>(hash >> 32),
                  static_cast<uint32_t>(bytes_.size()),
                  static_cast<uint32_t>(tokens_.size()),
                  static_cast<uint16_t>(word.size()),
                  static_cast<uint16_t>(tokens.size())};
    bytes_.insert(bytes_.end(), word.begin(), word.end());
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    ++used_;
  }

  void clear() {
    slots_.assign(kSlots, {});
    bytes_.clear();
    tokens_.clear();
    used_ = 0;
  }

 private:
  static constexpr size_t kSlots = size_t{1} << 16;

  struct Slot {
    uint32_t tag = 0;
    uint32_t word = 0;   // where its bytes are
    uint32_t begin = 0;  // where its tokens are
    uint16_t size = 0;
    uint16_t count = 0;
  };

  std::vector<Slot> slots_;
  std::vector<char> bytes_;
  std::vector<ModelToken> tokens_;
  size_t used_ = 0;
};

}  // namespace muster::text
