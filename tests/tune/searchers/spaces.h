// Spaces that the tests of several searchers share.
#pragma once

#include "muster/tune/space/space.h"

namespace muster::tune {

/// x and y, each uniform in 0 … 1.
inline const Space& unit_square() {
  static const Space space = {{"x", uniform(0, 1)}, {"y", uniform(0, 1)}};
  return space;
}

}  // namespace muster::tune
