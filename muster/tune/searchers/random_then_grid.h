// Random search, then ever finer grids around the best: the options that C++ users name.
#pragma once

#include <cstdint>
#include <string>

namespace muster::tune {

struct RandomThenGridOptions {
  int64_t startup = 20;   ///< random trials first
  int64_t top = 3;        ///< best trials that a round puts a grid around
  int64_t points = 5;     ///< of a grid in each parameter, at most
  double shrink = 0.5;    ///< width of a round's grids as a share of those before
  int64_t max_grid = 32;  ///< points of a grid; from a larger one so many are drawn
};

/// The searcher as StudySpec::searcher names it: "random_then_grid:top=1".
std::string random_then_grid(const RandomThenGridOptions& options);

}  // namespace muster::tune
