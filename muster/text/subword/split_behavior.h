// What becomes of the matches of a pattern that parts a text.
#pragma once

#include <string>
#include <vector>

#include "muster/text/subword/aligned_text.h"
#include "muster/text/subword/regex.h"
#include "muster/text/subword/section.h"

namespace muster::text {

enum class SplitBehavior : uint8_t {
  kRemoved,
  kIsolated,
  kMergedWithPrevious,
  kMergedWithNext,
  kContiguous
};

/// Throws an environment error for other names.
SplitBehavior read_split_behavior(Section& section, const char* key);

/// `matches` cover a text without gaps.
void append_parts(const std::vector<Match>& matches,
                  SplitBehavior behavior,
                  std::vector<Piece>& out);

}  // namespace muster::text
