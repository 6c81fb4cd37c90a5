// What a rank's training step takes at its peak, before anything is trained.
#pragma once

#include <memory>
#include <string>

#include "muster/train/plan/fit_data.h"
#include "muster/train/plan/fit_plan.h"
#include "muster/train/task/task.h"

namespace muster::train {

// Note [Estimate of a run]
// The task's module is moved to the meta device (Note [Estimate on meta]);
// the batch is the first two samples', stretched to the rank's size, texts to the longest. Each part of
// the task steps with an optimizer of its own as in the run, with clipping, accumulation, averaged
// weights, frozen parameters and channels-last memory. With ddp and dp gradients lie in buckets all the
// time. Not made are precision by autocast, whose casts belong to a kind of device, and the sharding of
// strategies: for the first there is no estimate, for the second one of the whole model, which says so.

/// A line for --explain, without its name: "about 12.1 MiB (parameters 1.61, …), estimated on meta;
/// within 10 %" (of small models within so many MiB), and what is not counted; or "not estimated: " and why. Reads two samples, holds one
/// model. `task` is fresh, and gone afterwards. In the calling thread; not collective. What samples and task throw is a reason not to estimate.
std::string memory_outlook(std::unique_ptr<Task> task, const FitData& data, const FitPlan& plan);

}  // namespace muster::train
