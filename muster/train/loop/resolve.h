// From what was said to what will be done.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "muster/base/rank_env.h"
#include "muster/optim/schedule.h"
#include "muster/tensor/device/device_kinds.h"
#include "muster/train/metrics/metric.h"
#include "muster/train/plan/ask_options.h"
#include "muster/train/plan/fit_plan.h"
#include "muster/train/plan/placement.h"

namespace muster::train {

/// How many ranks a launcher started and what each may use.
struct Surroundings {
  int64_t world_size = 1;
  int64_t local_world_size = 1;
  int64_t cores = 1;
  int64_t intraop_threads = 0;  ///< of the calling thread's operators; 0: as many as ATen has now
  int64_t local_rank = 0;       ///< of this process on its machine
  tensor::DeviceKinds kinds = tensor::usual_devices();  ///< that --device may name
};

/// This machine, as one rank of the job that the environment names, or alone; `kinds` are those that
/// --device may name.
Surroundings surroundings_of(const std::optional<RankEnv>& env,
                             const tensor::DeviceKinds& kinds = tensor::usual_devices());

/// Where this rank is to answer, and opens that kind of device: before there is a group. Throws as
/// place() and try_devices().
Placement place_asked(const AskOptions& said, const Surroundings& around);

/// What the run's learning-rate schedule knows of it.
optim::ScheduleContext schedule_context(const FitNumbers& numbers,
                                        const std::vector<Metric>& metrics);

/// The plan with that many samples per batch, which a search has found, and all that follows from it.
/// Throws a usage error as resolve_fit().
FitPlan with_batch_size(const FitPlan& plan, int64_t samples);

/// Whether the run might as well be one of --on-oom split.
bool may_split(FitOptions options, const FitNumbers& numbers);

/// Replaces auto and -1 in `options`, and counts. Throws a usage error, by the name of the flag, for
/// an unknown name, a number out of range, a batch size that the ranks cannot share equally, a
/// metric to monitor, or for a schedule, that is not among `metrics`, what validation samples must
/// decide where there are none, or a strategy that is not for these surroundings. `auto` is single on
/// one rank, ddp on more, and dp where --devices is said. Opens the kind of device that --device
/// means; see place().
FitNumbers resolve_fit(FitOptions& options,
                       const Surroundings& around,
                       const SplitFacts& splits,
                       const std::vector<Metric>& metrics);

}  // namespace muster::train
