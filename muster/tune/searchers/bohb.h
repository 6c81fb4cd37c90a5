// BOHB's kernel densities: the options that C++ users name.
#pragma once

#include <cstdint>
#include <string>

namespace muster::tune {

struct BohbOptions {
  int64_t min_points = 0;     ///< good trials, and bad ones, that a model needs; 0: parameters + 1
  int64_t good_percent = 15;  ///< of a step's trials that count as good
  int64_t candidates = 64;    ///< draws near good trials, of which the most promising is suggested
  double random_fraction = 1.0 / 3;  ///< of trials that are drawn at random all the same
  double bandwidth_factor = 3;       ///< how much wider than the density candidates are spread
  double min_bandwidth = 1e-3;       ///< of the densities, in units of each range
  std::string failed = "worst";      ///< "worst": failed trials count as bad; "ignore": as nothing
};

/// The searcher as StudySpec::searcher names it: "bohb:candidates=24".
std::string bohb(const BohbOptions& options);

}  // namespace muster::tune
