#include "muster/text/subword/split_behavior.h"

#include <algorithm>
#include <array>
#include <utility>

namespace muster::text {

SplitBehavior read_split_behavior(Section& section, const char* key) {
  static constexpr std::array<std::pair<const char*, SplitBehavior>, 5> kNames = {
      {{"Removed", SplitBehavior::kRemoved},
       {"Isolated", SplitBehavior::kIsolated},
       {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
       {"MergedWithNext", SplitBehavior::kMergedWithNext},
       {"Contiguous", SplitBehavior::kContiguous}}};
  const std::string name = section.text(key);
  for (const auto& [known, behavior] : kNames) {
    if (name == known) return behavior;
  }
  section.refuse(key, "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous", name);
}

void append_parts(const std::vector<Match>& matches,
                  SplitBehavior behavior,
                  std::vector<Piece>& out) {
  const size_t first = out.size();
  const bool backwards = behavior == SplitBehavior::kMergedWithNext;
  bool previous = false;
  for (size_t i = 0; i < matches.size(); ++i) {
    const Match& match = matches[backwards ? matches.size() - 1 - i : i];
    if (behavior == SplitBehavior::kRemoved && match.found) continue;
    const bool has_last = out.size() > first;
    const bool joins = behavior == SplitBehavior::kContiguous ? match.found == previous
                       : behavior == SplitBehavior::kIsolated || behavior == SplitBehavior::kRemoved
                           ? false
                           : match.found && !previous;
    if (joins && has_last && backwards) {
      out.back().begin = match.begin;
    } else if (joins && has_last) {
      out.back().end = match.end;
    } else {
      out.push_back({match.begin, match.end});
    }
    previous = match.found;
  }
  if (backwards) std::reverse(out.begin() + static_cast<ptrdiff_t>(first), out.end());
}

}  // namespace muster::text
