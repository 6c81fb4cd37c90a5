// What a rank holds of letters that nobody has taken yet.
#pragma once

#include <span>
#include <vector>

#include "muster/pipeline/action/action_lists.h"
#include "muster/pipeline/simulate/timeline.h"

namespace muster::pipeline {

// Note [Letters wait]
// What a stage makes for another one waits where it was made: a receive stands in the list right
// before the action that uses it, so nothing is brought over earlier. Threads of a process leave it
// in the sender's memory (ThreadCarrier), and so do groups: a message goes when its receive is
// asked for. An output that is sent is what the stage keeps for its backward, and counted there. The
// gradient of a stage's input is memory of its own, from the end of B or I, on all ways, also between
// two stages of one rank. A letter to another rank is gone when that one begins to receive it, or, in
// lists without messages, begins the action that uses it.

/// The most that each rank holds at once in a step that has this timeline, simulated or measured:
/// peak_bytes(lists, stages) and the letters that wait meanwhile. One StageBytes per stage.
std::vector<double> peak_bytes(const ActionLists& lists,
                               std::span<const StageBytes> stages,
                               const Timeline& timeline);

}  // namespace muster::pipeline
