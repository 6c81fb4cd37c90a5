#include "muster/text/subword/merge.h"

#include <algorithm>
#include <bit>

namespace muster::text {
namespace {

constexpr size_t kShortWord = 48;
constexpr uint32_t kNoSymbol = UINT32_MAX;

}  // namespace

MergeTable::MergeTable(size_t merges)
    : slots_(std::bit_ceil(merges * 2 + 16)), mask_(slots_.size() - 1) {}

void MergeTable::insert(uint32_t left, uint32_t right, Merge merge) {
  const uint64_t key = uint64_t{left} << 32 | right;
  size_t at = slot_of(key);
  while (slots_[at].merge.rank != Merge::kNever && slots_[at].key != key) at = (at + 1) & mask_;
  slots_[at] = {key, merge};
}

void Merger::merge(const MergeTable& table, std::vector<ModelToken>& word) {
  if (word.size() < 2) return;
  if (word.size() <= kShortWord) {
    merge_short(table, word);
  } else {
    merge_long(table, word);
  }
}

void Merger::merge_short(const MergeTable& table, std::vector<ModelToken>& word) {
  size_t size = word.size();
  pairs_.resize(size);  // of each symbol with the next one
  for (size_t i = 0; i + 1 < size; ++i) pairs_[i] = table.find(word[i].id, word[i + 1].id);
  while (size > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < size; ++i) {
      if (pairs_[i].rank < pairs_[best].rank) best = i;
    }
    if (pairs_[best].rank == Merge::kNever) break;
    word[best] = {pairs_[best].id, word[best].bytes + word[best + 1].bytes};
    std::copy(word.begin() + static_cast<ptrdiff_t>(best) + 2,
              word.begin() + static_cast<ptrdiff_t>(size),
              word.begin() + static_cast<ptrdiff_t>(best) + 1);
    std::copy(pairs_.begin() + static_cast<ptrdiff_t>(best) + 2,
              pairs_.begin() + static_cast<ptrdiff_t>(size),
              pairs_.begin() + static_cast<ptrdiff_t>(best) + 1);
    --size;
    if (best > 0) pairs_[best - 1] = table.find(word[best - 1].id, word[best].id);
    if (best + 1 < size) pairs_[best] = table.find(word[best].id, word[best + 1].id);
  }
  word.resize(size);
}

void Merger::wait(const MergeTable& table, const std::vector<ModelToken>& word, uint32_t at) {
  const uint32_t behind = links_[at].behind;
  if (behind == kNoSymbol) return;
  const Merge merge = table.find(word[at].id, word[behind].id);
  if (merge.rank == Merge::kNever) return;
  heap_.push_back({merge.rank, at, merge.id, word[at].id, word[behind].id});
  std::push_heap(heap_.begin(), heap_.end(), [](const Waiting& a, const Waiting& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  });
}

void Merger::merge_long(const MergeTable& table, std::vector<ModelToken>& word) {
  const auto later = [](const Waiting& a, const Waiting& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  };
  const auto size = static_cast<uint32_t>(word.size());
  heap_.clear();
  links_.resize(size);
  for (uint32_t i = 0; i < size; ++i) links_[i] = {i - 1, i + 1 < size ? i + 1 : kNoSymbol};
  for (uint32_t i = 0; i < size; ++i) wait(table, word, i);
  while (!heap_.empty()) {
    const Waiting next = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), later);
    heap_.pop_back();
    ModelToken& left = word[next.at];
    const uint32_t behind = links_[next.at].behind;
    // Not so any more: one of the two went into another merge.
    if (left.bytes == 0 || behind == kNoSymbol || left.id != next.left ||
        word[behind].id != next.right)
      continue;
    left = {next.id, left.bytes + word[behind].bytes};
    word[behind].bytes = 0;
    links_[next.at].behind = links_[behind].behind;
    if (links_[behind].behind != kNoSymbol) links_[links_[behind].behind].before = next.at;
    if (links_[next.at].before != kNoSymbol) wait(table, word, links_[next.at].before);
    wait(table, word, next.at);
  }
  std::erase_if(word, [](const ModelToken& token) { return token.bytes == 0; });
}

}  // namespace muster::text
