// What the buckets of averaged gradients hold.
#pragma once

#include <cstdint>

namespace muster::parallel {

/// What buckets hold on a rank's device.
struct BucketMemory {
  int64_t once = 0;        ///< bytes of the gradients that travel in them
  int64_t sets = 1;        ///< how many times it is held now, at most: the first seem to live on
  int64_t most_sets = 1;   ///< the same behind the first step, which settles their order
  bool is_making = false;  ///< they are made anew, or could not be
};

}  // namespace muster::parallel
