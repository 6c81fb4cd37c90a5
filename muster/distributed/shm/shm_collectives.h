// What each collective does over a shared segment.
#pragma once

#include "muster/distributed/call/contribution.h"
#include "muster/distributed/shm/shm_steps.h"

namespace muster::distributed {

/// Runs this rank's part of a collective to its end. Blocks. Throws a usage error, on all ranks, if
/// the parts do not fit each other, and an environment error if a rank does not come.
void run_shm_collective(ShmSteps& steps, const Contribution& part);

}  // namespace muster::distributed
