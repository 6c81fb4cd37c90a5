// --lr find, before the run that it is for.
#pragma once

#include <filesystem>
#include <optional>

#include "muster/distributed/process_group.h"
#include "muster/train/loop/fit.h"
#include "muster/train/record/lr_search_files.h"

namespace muster::train {

/// The plan with the rate that was found, and how.
struct FittedLr {
  FitPlan plan;
  LrFound found;
};

/// Steps with rising rates on a task, optimizer and loader of their own, which are gone afterwards:
/// the run behind it is bit for bit the one that --lr with the found number makes. Notes the rate.
/// Nothing if stop_requested says so on some rank. Throws a usage error, alike on all ranks, for a task of
/// several parts, and if the loss explodes too early for a suggestion; else as fit(). Collective.
/// See Note [Learning-rate search].
std::optional<FittedLr> find_lr(const FitRequest& run, const distributed::ProcessGroup& group);

/// The plan with the rate that a run's start has found: a resumed run searches for none. Throws as
/// kept_rate().
FitPlan with_lr_of(const FitPlan& plan, const Checkpoint& checkpoint);

/// The callbacks, which also write the search into the run's folder as soon as it is the run's. `lr`
/// outlives them.
FitCallbacks also_writing(const FitCallbacks& callbacks,
                          const FittedLr& lr,
                          const std::filesystem::path& output);

}  // namespace muster::train
