// In which scope the nodes of a thread were made, without a look at each of them.
#pragma once

#include <cstdint>
#include <optional>

namespace muster::memory {

// Note [Scope log]
// A node of autograd's graph has a number within the thread that made it, and numbers grow. So it is
// enough to remember, at each change of a thread's scope, the number of the node that comes next: the
// scope of a node is that of the last change before it. Each thread keeps its last 4096 changes; a
// change is forgotten where no node was made before the next. Logs of threads that have ended are
// kept, too, of the last 64 of them.

/// The calling thread's nodes are `scope`'s from the next one on.
void note_scope_change(uint32_t scope);

/// Of node `sequence` of `thread` (at::RecordFunction::currentThreadId(), Node::thread_id()); nothing
/// where the change before it is forgotten. 0, no scope, for threads that never opened one. Any
/// thread; a lock that only another thread's look contends for.
std::optional<uint32_t> scope_of_node(uint64_t thread, uint64_t sequence);

}  // namespace muster::memory
