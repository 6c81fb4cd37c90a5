// Finds many fragments in a line at once, whatever the case of its letters. Private to the room.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace muster::diagnose {

/// The small letters of ASCII; other bytes stay.
char small_letter(char letter);
std::string small_letters(std::string_view text);

/// All fragments in one pass over the text, whose cost does not depend on their number.
/// Copies share what was built, and each has room of its own to search in.
/// Source: Aho and Corasick, "Efficient string matching", CACM 18 (1975).
class FragmentFinder {
 public:
  /// The number of a fragment that is not empty; the same for the same text. Before `build`.
  uint32_t add(std::string_view fragment);
  void build();

  /// The numbers of all fragments in `text`, each once, in no order. After `build`. One thread.
  const std::vector<uint32_t>& find(std::string_view text);

 private:
  struct Automaton {
    std::array<uint8_t, 256> letter_of{};  // bytes that no fragment has are letter 0
    size_t letters = 1;
    std::vector<uint32_t> next;     // (state, letter) -> state
    std::vector<int32_t> ends;      // the fragment that ends in a state, or -1
    std::vector<uint32_t> shorter;  // the next state on the way of suffixes that ends one

    size_t at(size_t state, size_t letter) const { return state * letters + letter; }
    void take_letters(const std::vector<std::string>& fragments);
    void grow_tree(const std::vector<std::string>& fragments);
    void link_suffixes();
  };

  std::vector<std::string> fragments_;
  std::shared_ptr<const Automaton> built_;
  std::vector<uint32_t> found_, last_seen_;  // of `find`; when each fragment was found last
  uint32_t now_ = 0;
};

}  // namespace muster::diagnose
