// What tensors of one device held at the end of an iteration.
#pragma once

#include <cstdint>

namespace muster::memory {

struct IterationEnd {
  int64_t iteration = 0;
  int64_t end_bytes = 0;
  int64_t peak_bytes = 0;  ///< the most within it; 0: not told
  bool operator==(const IterationEnd&) const = default;
};

}  // namespace muster::memory
