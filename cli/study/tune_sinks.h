// What `muster tune` writes besides the storage, when asked to.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "muster/tune/core/event.h"
#include "muster/tune/core/study_spec.h"
#include "muster/tune/views/ray_files.h"
#include "muster/tune/views/tensorboard_trials.h"

namespace muster::cli {

/// Ray's files in TRIALS/ray and TensorBoard's events in TRIALS/tensorboard, TRIALS being
/// spec.trial_folder. Made when the study is open, so that nobody else runs it; what it did before
/// is taken from the storage. They are by-work: one that cannot be written ends, with a line for
/// the user, and the study goes on. One thread.
class TuneSinks {
 public:
  using Note = std::function<void(const std::string& line)>;

  /// Throws an environment error if a folder cannot be written.
  TuneSinks(const tune::StudySpec& spec, Note note);

  void on_events(std::span<const tune::Event> events);

 private:
  template <class Sink>
  void give(std::unique_ptr<Sink>& sink,
            std::span<const tune::Event> events,
            const char* what,
            const char* format);

  Note note_;
  int64_t taken_ = 0;  // the newest event
  std::unique_ptr<tune::RayFiles> ray_;
  std::unique_ptr<tune::TensorBoardTrials> tensorboard_;
};

}  // namespace muster::cli
