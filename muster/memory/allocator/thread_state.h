// What a thread is doing, for the blocks that it allocates.
#pragma once

#include <cstdint>

namespace muster::memory {

/// Written by its thread alone.
struct ThreadState {
  uint32_t scope = 0;  ///< name_id() of the path of open scopes
  uint32_t op = 0;     ///< of the outermost operator or node of a graph; 0: none
  uint32_t layer = 0;  ///< of the layer whose parameters were used last
  int32_t op_depth = 0;
  uint16_t number = 0;       ///< 1 and so on, in the order in which threads allocated; 0: not yet
  bool grad_mode = false;    ///< the operator would build a graph
  bool in_backward = false;  ///< a node of a graph runs
  bool marked = false;       ///< FailingThread
  bool is_probing = false;   ///< an allocation of ours, under the lock of recordings
  uint64_t allocations = 0;  ///< that came to our allocator
  uint32_t seen_iteration = 0;
  uint64_t first_sequence = 0;  ///< of autograd's numbers in `seen_iteration`
};

inline thread_local constinit ThreadState this_thread_state;

}  // namespace muster::memory
