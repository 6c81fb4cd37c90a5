// `muster train`'s training: a model of the zoo, by its plan.
#pragma once

#include <filesystem>
#include <optional>

#include "muster/train/classifier/train_data.h"
#include "muster/train/classifier/train_plan.h"
#include "muster/train/loop/fit.h"

namespace muster::train {

/// The task that the plan names: a classifier, or of a measured target a regressor, its weights as make_initial_model(). `plan`
/// outlives it.
TaskMaker classifier_maker(const TrainPlan& plan, bool is_resumed);

/// fit() with that task. Throws as fit().
FitResult train(const TrainPlan& plan,
                const TrainData& data,
                const distributed::ProcessGroup& group,
                const std::filesystem::path& output,
                const std::optional<Checkpoint>& resume,
                const FitCallbacks& callbacks,
                RunFolder* owned = nullptr);

/// fit_on_threads() with it.
FitResult train_on_threads(const TrainPlan& plan,
                           const TrainData& data,
                           const std::filesystem::path& output,
                           const std::optional<Checkpoint>& resume,
                           const FitCallbacks& callbacks,
                           RunFolder* owned = nullptr);

}  // namespace muster::train
