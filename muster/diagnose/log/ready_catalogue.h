// The catalogue's patterns in the form in which lines are looked at.
#pragma once

#include <cstddef>
#include <vector>

#include "muster/diagnose/catalogue/error_row.h"
#include "muster/diagnose/catalogue/pattern_set.h"

namespace muster::diagnose {

inline constexpr size_t kNobody = static_cast<size_t>(-1);

/// What a pattern of the set stands for: a pattern of a row, or the condition of a cause.
struct PatternMeaning {
  size_t row = 0;
  const Pattern* pattern = nullptr;
  size_t cause = kNobody;
};

/// The catalogue, ready to be looked for.
struct ReadyCatalogue {
  PatternSet patterns;
  std::vector<PatternMeaning> meanings;  // by pattern
  PatternSet guesses;                    // the patterns of depth kGuess: asked last
  std::vector<PatternMeaning> guess_meanings;
  std::vector<const ErrorRow*> rows;
};

/// The same for every reader, and never changed. Any thread.
const ReadyCatalogue& ready_catalogue();

}  // namespace muster::diagnose
