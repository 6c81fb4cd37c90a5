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

void FragmentFinder::Automaton::take_letters(const std::vector<std::string>& fragments) {
  for (const std::string& fragment : fragments) {
    for (const char letter : fragment) {
      uint8_t& number = letter_of[static_cast<uint8_t>(letter)];
      if (number == 0) number = static_cast<uint8_t>(letters++);
    }
  }
  for (int letter = 'A'; letter <= 'Z'; ++letter)
    letter_of[static_cast<size_t>(letter)] = letter_of[static_cast<size_t>(letter - 'A' + 'a')];
}

/// The tree of all beginnings; 0, its root, stands for "no child" as well.
void FragmentFinder::Automaton::grow_tree(const std::vector<std::string>& fragments) {
  next.assign(letters, 0);
  ends.assign(1, -1);
  for (size_t i = 0; i < fragments.size(); ++i) {
    size_t state = 0;
    for (const char letter : fragments[i]) {
      const size_t edge = at(state, letter_of[static_cast<uint8_t>(letter)]);
      if (next[edge] == 0) {
        next[edge] = static_cast<uint32_t>(ends.size());
        next.resize(next.size() + letters, 0);
        ends.push_back(-1);
      }
      state = next[edge];
    }
    ends[state] = static_cast<int32_t>(i);
  }
}

/// Where no child is, the longest suffix that is a beginning goes on; level by level.
void FragmentFinder::Automaton::link_suffixes() {
  std::vector<uint32_t> suffix(ends.size(), 0);
  shorter.assign(ends.size(), 0);
  std::deque<uint32_t> queue;
  for (size_t letter = 1; letter < letters; ++letter) {
    if (next[letter] != 0) queue.push_back(next[letter]);
  }
  while (!queue.empty()) {
    const uint32_t state = queue.front();
    queue.pop_front();
    shorter[state] = ends[suffix[state]] >= 0 ? suffix[state] : shorter[suffix[state]];
    for (size_t letter = 1; letter < letters; ++letter) {
      uint32_t& to = next[at(state, letter)];
      const uint32_t instead = next[at(suffix[state], letter)];
      if (to == 0) {
        to = instead;
      } else {
        suffix[to] = instead;
        queue.push_back(to);
      }
    }
  }
}

void FragmentFinder::build() {
  const auto automaton = std::make_shared<Automaton>();
  automaton->take_letters(fragments_);
  automaton->grow_tree(fragments_);
  automaton->link_suffixes();
  last_seen_.assign(fragments_.size(), 0);
  built_ = automaton;
}

const std::vector<uint32_t>& FragmentFinder::find(std::string_view text) {
  found_.clear();
  if (++now_ == 0) {  // after 2^32 texts
    std::ranges::fill(last_seen_, 0);
    now_ = 1;
  }
  const Automaton& built = *built_;
  size_t state = 0;
  for (const char letter : text) {
    state = built.next[built.at(state, built.letter_of[static_cast<uint8_t>(letter)])];
    for (size_t end = built.ends[state] >= 0 ? state : built.shorter[state]; end != 0;
         end = built.shorter[end]) {
      const auto fragment = static_cast<uint32_t>(built.ends[end]);
      if (last_seen_[fragment] == now_) continue;
      last_seen_[fragment] = now_;
      found_.push_back(fragment);
    }
  }
  return found_;
}

}  // namespace muster::diagnose
