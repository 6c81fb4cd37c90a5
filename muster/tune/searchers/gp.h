// Bayesian optimisation with a Gaussian process: the options that C++ users name.
#pragma once

#include <cstdint>
#include <string>

namespace muster::tune {

struct GpOptions {
  int64_t startup = 10;          ///< trials with a result before there is a model
  bool deterministic = false;    ///< the score of a point is always the same
  std::string failed = "worst";  ///< what a failed trial's score counts as: worst, or ignore
  int64_t max_trials = 2000;     ///< of more the best half and the latest half are modelled
  int64_t samples = 2048;        ///< points that a suggestion is looked for among, to begin with
  bool warp = false;             ///< scores below the median count by their rank alone
};

/// The searcher as StudySpec::searcher names it: "gp:deterministic=true".
std::string gp(const GpOptions& options);

}  // namespace muster::tune
