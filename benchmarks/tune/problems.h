// Functions with a known least value, each over a search space, to compare searchers on. peer.py
// has the same ones for Python; `tune_quality --check` holds the two against each other.
#pragma once

#include <span>
#include <string_view>

#include "muster/tune/space/space.h"

namespace muster::benchmarks {

struct Problem {
  std::string_view name;
  tune::Space space;
  double least = 0;                                ///< the value at the best point, or below it
  double (*value)(const tune::Values&) = nullptr;  ///< to be minimised
  double noise_sd = 0;  ///< of what is added to the values that a searcher sees
};

/// All of them, in the order of the table.
std::span<const Problem> problems();

}  // namespace muster::benchmarks
