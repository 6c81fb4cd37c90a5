#include "muster/diagnose/catalogue/fragment_finder.h"

#include <algorithm>
#include <deque>

namespace muster::diagnose {

char small_letter(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

std::string small_letters(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), small_letter);
  return out;
}

uint32_t FragmentFinder::add(std::string_view fragment) {
  std::string text = small_letters(fragment);
  const auto same = std::ranges::find(fragments_, text);
  if (same != fragments_.end()) return static_cast<uint32_t>(same - fragments_.begin());
  fragments_.push_back(std::move(text));
  return static_cast<uint32_t>(fragments_.size() - 1);
}

void FragmentFinder::build() {
  for (const std::string& fragment : fragments_) {
    for (const char letter : fragment) {
      uint8_t& number = letter_of_[static_cast<uint8_t>(letter)];
      if (number == 0) number = static_cast<uint8_t>(letters_++);
    }
  }
  for (int letter = 'A'; letter <= 'Z'; ++letter)
    letter_of_[static_cast<size_t>(letter)] = letter_of_[static_cast<size_t>(letter - 'A' + 'a')];
  // The tree of all beginnings; 0, its root, stands for "no child" as well.
  next_.assign(letters_, 0);
  ends_.assign(1, -1);
  for (size_t i = 0; i < fragments_.size(); ++i) {
    size_t state = 0;
    for (const char letter : fragments_[i]) {
      const size_t edge = at(state, letter_of_[static_cast<uint8_t>(letter)]);
      if (next_[edge] == 0) {
        next_[edge] = static_cast<uint32_t>(ends_.size());
        next_.resize(next_.size() + letters_, 0);
        ends_.push_back(-1);
      }
      state = next_[edge];
    }
    ends_[state] = static_cast<int32_t>(i);
  }
  // Where no child is, the longest suffix that is a beginning goes on; level by level.
  std::vector<uint32_t> suffix(ends_.size(), 0);
  shorter_.assign(ends_.size(), 0);
  std::deque<uint32_t> queue;
  for (size_t letter = 1; letter < letters_; ++letter) {
    if (next_[letter] != 0) queue.push_back(next_[letter]);
  }
  while (!queue.empty()) {
    const uint32_t state = queue.front();
    queue.pop_front();
    shorter_[state] = ends_[suffix[state]] >= 0 ? suffix[state] : shorter_[suffix[state]];
    for (size_t letter = 1; letter < letters_; ++letter) {
      uint32_t& to = next_[at(state, letter)];
      const uint32_t instead = next_[at(suffix[state], letter)];
      if (to == 0) {
        to = instead;
      } else {
        suffix[to] = instead;
        queue.push_back(to);
      }
    }
  }
  last_seen_.assign(fragments_.size(), 0);
}

const std::vector<uint32_t>& FragmentFinder::find(std::string_view text) {
  found_.clear();
  if (++now_ == 0) {  // after 2^32 texts
    std::ranges::fill(last_seen_, 0);
    now_ = 1;
  }
  size_t state = 0;
  for (const char letter : text) {
    state = next_[at(state, letter_of_[static_cast<uint8_t>(letter)])];
    for (size_t end = ends_[state] >= 0 ? state : shorter_[state]; end != 0; end = shorter_[end]) {
      const auto fragment = static_cast<uint32_t>(ends_[end]);
      if (last_seen_[fragment] == now_) continue;
      last_seen_[fragment] = now_;
      found_.push_back(fragment);
    }
  }
  return found_;
}

}  // namespace muster::diagnose
