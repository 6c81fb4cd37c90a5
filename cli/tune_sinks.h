// What `muster tune` writes besides the storage, when asked to.
#pragma once

#include <memory>
#include <span>

#include "muster/tune/core/event.h"
#include "muster/tune/core/study_spec.h"
#include "muster/tune/views/ray_files.h"
#include "muster/tune/views/tensorboard_trials.h"

namespace muster::cli {

/// Ray's files in TRIALS/ray and TensorBoard's events in TRIALS/tensorboard, TRIALS being
/// spec.trial_folder; a study that is gone on with has its earlier events taken from the storage.
/// One thread.
class TuneSinks {
 public:
  /// Throws an environment error if a folder cannot be written.
  explicit TuneSinks(const tune::StudySpec& spec);

  void take(std::span<const tune::Event> events);

 private:
  std::unique_ptr<tune::RayFiles> ray_;
  std::unique_ptr<tune::TensorBoardTrials> tensorboard_;
};

}  // namespace muster::cli
