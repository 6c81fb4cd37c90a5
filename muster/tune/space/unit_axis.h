// A dimension seen as the interval [0, 1], for searchers that compute distances.
#pragma once

#include <cstdint>
#include <vector>

#include "muster/tune/space/domain.h"

namespace muster::tune {

/// The place of a number in [0, 1], linear in the value or in its logarithm; numbers on a step, and
/// categories, have equal parts of it and are in the middle of theirs. For a normal distribution
/// mean - 3 sd is 0 and mean + 3 sd is 1, and numbers beyond are outside.
double to_unit(const Distribution& distribution, double number);

/// The number of the distribution nearest to a place: on its step, inside its bounds.
double from_unit(const Distribution& distribution, double place);

/// The number of the distribution nearest to `number`: on its step, inside its bounds.
double nearest_number(const Distribution& distribution, double number);

/// The number `steps` steps above (below) `number`; itself for a distribution without a step, and
/// at the bounds.
double shifted(const Distribution& distribution, double number, int64_t steps);

}  // namespace muster::tune
