// Functions with a known least value, each over a search space, to compare searchers on. peer.py
// has the same ones for Python; `tune_quality --check` holds the two against each other.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "muster/tune/space/space.h"

namespace muster::benchmarks {

struct Problem {
  std::string name;
  tune::Space space;
  double least = 0;                                  ///< the value at the best point, or below it
  std::function<double(const tune::Values&)> value;  ///< to be minimised
  double noise_sd = 0;  ///< of what is added to the values that a searcher sees
};

/// All of them, in the order of the table.
std::span<const Problem> problems();

}  // namespace muster::benchmarks
