// Sobol's sequence: the options that C++ users name.
#pragma once

#include <cstdint>
#include <string>

namespace muster::tune {

struct SobolOptions {
  bool scramble = true;  ///< by the study's seed; without it all studies have the same points
  int64_t skip = 0;      ///< points left out at the start of the sequence
};

/// The searcher as StudySpec::searcher names it: "sobol:scramble=false".
std::string sobol(const SobolOptions& options);

}  // namespace muster::tune
