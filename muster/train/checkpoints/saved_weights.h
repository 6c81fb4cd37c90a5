// A run's weights, for those who look at them and train nothing.
#pragma once

#include <filesystem>
#include <string>

#include "muster/train/checkpoints/checkpoint.h"

namespace muster::train {

/// As read_checkpoint(), but for what only a training needs: `optimizer`, `rng` and `more` stay
/// empty, and their files are not looked at.
Checkpoint read_model(const std::filesystem::path& folder);
/// The same with the averages of --ema-decay as its `model`. Throws a usage error if it has none.
Checkpoint read_averages(const std::filesystem::path& folder);

/// Some weights of a run. `which` is "last": the newest as they were trained; "ema": their averages
/// (--ema-decay); "best": those that its best validation was of, which are averages where the run
/// has some; or a checkpoint: its folder, or its name in the run ("step-120"), and of its averages
/// "step-120:ema". Empty: those that the run tests at its end (--test-weights). Writes
/// nothing, and may be called while the run goes on and removes checkpoints. Throws a usage error
/// for a folder that is no run's, for what the run has not, and as read_checkpoint().
Checkpoint read_weights(const std::filesystem::path& run, const std::string& which);

}  // namespace muster::train
