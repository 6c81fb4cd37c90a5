// --batch-size auto, before the run that it is for.
#pragma once

#include <optional>

#include "muster/distributed/process_group.h"
#include "muster/train/loop/fit.h"

namespace muster::train {

// Note [Batch search]
// Each probe is the run itself for kProbeSteps steps, made and thrown away: its task, optimizer,
// loader, precision and averages, so that nothing of a training is missing in what is measured. What
// counts is the peak of the device's allocator in these steps, and the limit is what was free before
// the first probe. Batches are of a rank: the ranks' limits and peaks are compared, and the worst counts for all.
// The ranks make their probes in a group of their own: where memory runs out on one of them, and no guard
// tells the others, it leaves that group, which ends the others' probes, and all meet in the run's own.
// Of a pipeline they are of all its ranks, in whole micro-batches: a stage that has no room is heard
// of by all, a probe fits where it fits on each, and what was measured for it (where the model is cut)
// is what the run goes on with.
// A pipeline is cut for speed as long as that fits, so a peak says little of larger batches, which are cut
// so that they fit. A probe's peak counts as what the cut that takes least would have made of it by the
// plan (Strategy::least_memory); where a probe does not fit, it is made once more with that cut.
// memory::BatchFinder says which sizes are tried. Validation has a batch size of its own, which is
// not searched for.

/// The plan with the batch size that was found; notes how. Nothing if stop_requested says so on some
/// rank. Throws an environment error, alike on all ranks, if no batch fits; else as fit(). Collective.
std::optional<FitPlan> find_batch(const FitRequest& run, const distributed::ProcessGroup& group);

}  // namespace muster::train
