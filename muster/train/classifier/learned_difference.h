// What a run that goes on would read otherwise than before, in words. Private, torch-free.
#pragma once

#include <string>

#include "muster/base/json_fwd.h"

namespace muster::train {

struct LearnedDifference {
  std::string what, then, now;
};

/// Of two objects of what data have taught (Dataset::learned()) that are not the same, the first part that
/// differs: of rows of numbers the target, its mean and deviation, the columns, their order, or one of them; of
/// other lists, where.
LearnedDifference learned_difference(const Json& then, const Json& now);

}  // namespace muster::train
