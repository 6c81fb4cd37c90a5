// When a rank may know that what it sent has been taken.
#pragma once

#include <cstdint>
#include <vector>

#include "muster/pipeline/action/action_lists.h"

namespace muster::pipeline {

/// By position in the rank's list, for its sends: the position at whose begin the message has been
/// received for certain, however late any rank comes, because what the rank has received until then
/// was made behind that; the length of the list where only the end of the step tells. -1 for other
/// actions. `lists` have messages, and find_fault() finds nothing.
std::vector<int64_t> surely_taken(const ActionLists& lists, int64_t rank);

}  // namespace muster::pipeline
