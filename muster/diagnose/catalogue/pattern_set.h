// Which patterns of the catalogue a line fits. Private to the room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/diagnose/catalogue/fragment_finder.h"

namespace muster::diagnose {

/// Patterns "a*b": parts that follow each other on a line. A number of two digits or more at an end of a part is meant whole:
/// "code 137" is not in "code 1370". One thread.
class PatternSet {
 public:
  /// The number of the pattern. Before `build`.
  size_t add(std::string_view pattern);

  /// Costs milliseconds for a catalogue; a copy of what was built costs less.
  void build() { finder_.build(); }

  /// The numbers of all patterns that the line fits, ascending. After `build`.
  const std::vector<size_t>& fitting(std::string_view line);

 private:
  struct Parts {
    std::vector<std::string> texts;   // in small letters
    std::vector<uint32_t> fragments;  // their numbers
    size_t seen = 0;                  // of them on this line
    bool has_number = false;          // at an end of a part
  };

  bool in_order(const Parts& pattern, std::string_view small) const;

  FragmentFinder finder_;
  std::vector<Parts> patterns_;
  std::vector<std::vector<size_t>> with_fragment_;  // patterns, by fragment
  std::vector<size_t> begun_, fitting_;
};

}  // namespace muster::diagnose
