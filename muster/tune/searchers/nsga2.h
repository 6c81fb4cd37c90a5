// NSGA-II: the options that C++ users name.
#pragma once

#include <cstdint>
#include <string>

namespace muster::tune {

struct Nsga2Options {
  int64_t population = 50;  ///< trials of a generation, and those that live on
  double crossover = 0.9;   ///< probability that a trial has two parents
  double swap = 0.5;        ///< of a parameter, to be the second parent's
  double mutation = -1;     ///< of a parameter, to be drawn anew; below 0: one by their number
};

/// The searcher as StudySpec::searcher names it: "nsga2:population=20".
std::string nsga2(const Nsga2Options& options);

}  // namespace muster::tune
