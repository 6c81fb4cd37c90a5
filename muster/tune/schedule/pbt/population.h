// The choices of population based training, without a population: who copies whom, and what becomes
// of a parameter.
#pragma once

#include <cstdint>
#include <vector>

#include "muster/tune/space/domain.h"

namespace muster::tune {

struct Scored {
  int64_t number;
  double score;  ///< larger is better; not finite: the worst
};

/// Numbers from the worst to the best.
struct Quantiles {
  std::vector<int64_t> lower;  ///< these copy
  std::vector<int64_t> upper;  ///< one of these; none whose score is not finite
};

/// ceil(fraction * n) trials at either end, at most floor(n / 2); of equal scores the lower number is
/// the worse. Nobody for fewer than two trials. Source: ray 2.60,
/// PopulationBasedTraining._quantiles; Jaderberg et al. 2017 ("Population Based Training of Neural
/// Networks"), truncation selection.
Quantiles quantiles(std::vector<Scored> trials, double fraction);

/// A number of the distribution beside `number`. One without order in its values (a category) moves
/// to a neighbour in its list; one of real or whole numbers is multiplied by `factor` and then taken
/// to the nearest number of the distribution, but by one step at least where it has steps. `up`
/// says where a category goes. At a bound it may stay. Source: ray 2.60, pbt._explore, which keeps
/// neither bounds nor steps.
double perturbed(const Distribution& distribution, double number, bool up, double factor);

}  // namespace muster::tune
