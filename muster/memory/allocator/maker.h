// What a thread is doing when it allocates.
#pragma once

#include <cstdint>

#include "muster/memory/allocator/cpu_memory.h"

namespace muster::memory {

/// Names by name_id().
struct Maker {
  uint32_t scope = 0;         ///< in a backward that of the forward
  uint32_t op = 0;            ///< 0: not known
  bool in_backward = false;   ///< a node of a graph runs
  bool builds_graph = false;  ///< an operator that would build a graph
};

/// Of the calling thread, which allocates so many bytes, as far as `level` looks: see Note [Operators].
/// Some 20 ns.
Maker maker_of(Level level, int64_t bytes);

}  // namespace muster::memory
