// What machines of one run must have been started alike with.
#pragma once

#include <optional>

#include "muster/distributed/process_group.h"
#include "muster/train/checkpoints/checkpoint.h"
#include "muster/train/plan/callbacks.h"
#include "muster/train/plan/fit_plan.h"

namespace muster::train {

/// Throws a usage error, the same on all ranks, unless they go on from one checkpoint, were given the
/// same options, and see the same data; looked at in this order, since each depends on the one
/// before. Collective.
void check_alike_on_ranks(const FitPlan& plan,
                          const distributed::ProcessGroup& group,
                          const std::optional<Checkpoint>& resume);

/// Throws a usage error, the same on all ranks, unless all or none of them were asked for a trace, which
/// they make together. Collective.
void check_same_trace(const TraceOptions& trace, const distributed::ProcessGroup& group);

}  // namespace muster::train
