// Why graphs of earlier iterations are still there.
#pragma once

#include "muster/memory/leak/leak_finder.h"
#include "muster/memory/leak/survey.h"

namespace muster::memory {

/// Whether most of the blocks were made by operators under gradients or by backwards.
inline bool is_of_graphs(const BlockGroup& group) { return 2 * group.of_graphs > group.count_now; }

/// Fills in held_by, because and fix of a finding of LeakKind::kGraph.
void explain_graph(const Survey& survey, LeakFinding& finding);

}  // namespace muster::memory
