// The merges of a byte pair encoding, applied to a word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::text {

/// A token of a word: its id, and how many bytes of the word it takes.
struct ModelToken {
  uint32_t id = 0;
  uint32_t bytes = 0;
};

/// What two neighbours become, and how soon. The lower rank goes first.
struct Merge {
  static constexpr uint32_t kNever = UINT32_MAX;

  uint32_t rank = kNever;
  uint32_t id = 0;
};

/// Pairs of ids to merges: open addressing, at most half full.
class MergeTable {
 public:
  explicit MergeTable(size_t merges = 0);

  /// A pair that is there already gets the new merge.
  void insert(uint32_t left, uint32_t right, Merge merge);

  Merge find(uint32_t left, uint32_t right) const {
    const uint64_t key = uint64_t{left} << 32 | right;
    for (size_t at = slot_of(key);; at = (at + 1) & mask_) {
      const Slot& slot = slots_[at];
      if (slot.merge.rank == Merge::kNever || slot.key == key) return slot.merge;
    }
  }

 private:
  struct Slot {
    uint64_t key = 0;
    Merge merge;
  };

  size_t slot_of(uint64_t key) const {
    const uint64_t hash = key * 0x9E3779B97F4A7C15U;
    return (hash ^ hash >> 32) & mask_;
  }

  std::vector<Slot> slots_;
  size_t mask_;
};

/// Room for merging, kept from word to word.
class Merger {
 public:
  /// Merges the neighbours of lowest rank, the leftmost first, until there are none. Short words by
  /// looking at all pairs each time, longer ones with a heap: n log n for n symbols.
  void merge(const MergeTable& table, std::vector<ModelToken>& word);

 private:
  struct Waiting {
    uint32_t rank, at, id, left, right;
  };
  struct Link {
    uint32_t before, behind;
  };

  void merge_short(const MergeTable& table, std::vector<ModelToken>& word);
  void merge_long(const MergeTable& table, std::vector<ModelToken>& word);
  void wait(const MergeTable& table, const std::vector<ModelToken>& word, uint32_t at);

  std::vector<Merge> pairs_;
  std::vector<Waiting> heap_;
  std::vector<Link> links_;
};

}  // namespace muster::text
