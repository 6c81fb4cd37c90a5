// How a training talks to its caller, and what it comes to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/track/progress.h"
#include "muster/train/metrics/metric.h"
#include "muster/train/task/evaluation.h"

namespace muster::train {

struct TraceOptions {
  static constexpr int64_t kMaxSteps = 10'000;
  std::filesystem::path file;  ///< of the Chrome trace, written by rank 0; empty: no timeline
  int64_t steps = 100;         ///< after the warm-up; 1 to kMaxSteps
  int64_t warm_up = 10;        ///< first steps, left out where the run is longer
};

/// An epoch that is over and saved.
struct EpochEnd {
  int64_t epoch = 0;                 ///< 1, 2, … of the whole run
  Metrics train;                     ///< over the epoch, while the weights changed
  Metrics validation;                ///< empty if there is none
  std::filesystem::path checkpoint;  ///< the state after this epoch, on disk
};

/// How the loop talks to its caller. All are called on the rank's own thread; empty ones are not
/// called.
struct FitCallbacks {
  /// Rank 0 only, at most some ten times a second.
  std::function<void(const track::ProgressEvent&)> progress;
  std::function<void(const std::string&)> note;  ///< rank 0 only: one line for people
  std::function<bool()> stop_requested;          ///< asked each step, on every rank
  /// Rank 0 only: the folder is this run's and nothing is refused any more; before the first step.
  std::function<void()> folder_ready;
  /// Rank 0 only, before the next epoch. Waits for the checkpoint, so only where it is wanted. True:
  /// the run is to stop here, as by stop_requested.
  std::function<bool(const EpochEnd&)> epoch_ended;
  /// Rank 0 only: what fit() is about to throw because a loss or a gradient is not finite.
  std::function<void(const Error&)> not_finite;
  TraceOptions trace;  ///< where rank 0 writes the timeline of the steps
  /// For the page of the run: {"command", "muster train …"}, {"host", …}, in the order shown.
  std::vector<std::pair<std::string, std::string>> about;
};

struct FitResult {
  bool interrupted = false;              ///< stop_requested said so; the state is in `checkpoint`
  int64_t steps = 0;                     ///< optimizer steps of the whole run so far
  std::optional<int64_t> skipped_steps;  ///< of these, left out because of overflow; 16-mixed only
  double seconds = 0;                    ///< of the whole run so far, in all its processes
  Evaluation test;                       ///< every test sample counted once; empty without test
  std::filesystem::path checkpoint;      ///< the newest; rank 0 only
};

}  // namespace muster::train
