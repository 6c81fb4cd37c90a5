// The timeline of a run: what each step spends on data, computation and communication.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "muster/diagnose/trace/timeline.h"
#include "muster/distributed/process_group.h"
#include "muster/train/plan/callbacks.h"

namespace muster::train {

/// Throws a usage error for a number of steps out of range, or a file that is a folder; an
/// environment error if its folder cannot be made or written.
void check_trace(const TraceOptions& options);

/// Used by the training loop of each rank. Without a file it only tells the group's monitor which
/// step it is.
class StepTimeline {
 public:
  /// `note` gets one line on rank 0 when the file is written, or could not be.
  StepTimeline(TraceOptions options,
               distributed::ProcessGroup group,
               std::function<void(const std::string&)> note);

  void begin_step(int64_t step);
  /// Ends the phase before it.
  void begin(diagnose::Phase phase);
  void end();
  /// Collective after the last wanted step: writes the file.
  void end_step();
  /// Collective: writes the file if it is not written yet. Throws if the ranks cannot talk, not if
  /// the file cannot be written.
  void finish();

 private:
  void write();

  TraceOptions options_;
  distributed::ProcessGroup group_;
  std::function<void(const std::string&)> note_;
  std::optional<diagnose::Timeline> timeline_;
  bool written_ = false;
};

}  // namespace muster::train
