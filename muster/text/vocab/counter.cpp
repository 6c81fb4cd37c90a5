#include "muster/text/vocab/counter.h"

#include <algorithm>

namespace muster::text {

void Counter::add(std::string_view word, int64_t times) {
  const uint32_t at = index_.find(word);
  if (at != TokenTable::kNone) {
    items_[at].second += times;
    return;
  }
  index_.insert(word, static_cast<uint32_t>(items_.size()));
  items_.emplace_back(word, times);
}

void Counter::update(std::span<const std::string> words) {
  for (const std::string& word : words) add(word);
}

void Counter::update(std::span<const std::string_view> words) {
  for (const std::string_view word : words) add(word);
}

int64_t Counter::count(std::string_view word) const {
  const uint32_t at = index_.find(word);
  return at == TokenTable::kNone ? 0 : items_[at].second;
}

std::vector<CountedWord> Counter::by_frequency() const {
  std::vector<CountedWord> out = items_;
  std::sort(out.begin(), out.end(), [](const CountedWord& a, const CountedWord& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  return out;
}

}  // namespace muster::text
