// A training as a trial of a study: where it writes, what it tells the tuner, how it ends.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "muster/train/plan/callbacks.h"
#include "muster/tune/trial/report.h"

namespace muster::train {

/// As a trial the run is in the trial's own folder, and goes on from where the tuner has it; what
/// the command line says stays. Every attempt that starts anew has a folder of its own.
void resolve_trial(std::filesystem::path& output, std::filesystem::path& resume);

/// Of rank 0: reports each epoch, also one that --max-steps cuts short, and why the run fails. Outside a study it does nothing.
class TrainAsTrial {
 public:
  /// `note` tells people when the tuner wants the run to pause or stop, which then ends with that
  /// epoch, its state saved, as by a signal.
  explicit TrainAsTrial(std::function<void(const std::string&)> note);

  /// Sets the callbacks that this needs. They refer to this object.
  void attach(FitCallbacks& callbacks);

 private:
  /// Whether to stop.
  bool report(const EpochEnd& end);

  std::function<void(const std::string&)> note_;
  std::optional<tune::TrialLink> link_;
};

}  // namespace muster::train
