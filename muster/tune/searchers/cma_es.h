// CMA-ES: the options that C++ users name.
#pragma once

#include <cstdint>
#include <string>

namespace muster::tune {

struct CmaEsOptions {
  int64_t population = 0;        ///< trials of a generation; 0: 4 + 3 ln(parameters)
  double sigma = 1.0 / 6;        ///< standard deviation at the start, as a share of each range
  bool margin = true;            ///< keep all steps of whole and stepped numbers within reach
  std::string failed = "worst";  ///< "worst": failed trials rank last; "ignore": as not tried
};

/// The searcher as StudySpec::searcher names it: "cma_es:population=12".
std::string cma_es(const CmaEsOptions& options);

}  // namespace muster::tune
