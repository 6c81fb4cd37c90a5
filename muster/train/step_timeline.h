// The timeline of a run: what each step spends on data, computation and communication.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "muster/parallel/formats/timeline.h"
#include "muster/parallel/process_group.h"

namespace muster::train {

struct TraceOptions {
  std::filesystem::path file;  ///< of the Chrome trace, written by rank 0; empty: no timeline
  int64_t steps = 0;           ///< from the first on; 0: all
};

/// Used by the training loop of each rank. Without a file it only tells the group's watch which
/// step it is.
class StepTimeline {
 public:
  /// `note` gets one line on rank 0 when the file is written.
  StepTimeline(TraceOptions options,
               parallel::ProcessGroup group,
               std::function<void(const std::string&)> note);

  void begin_step(int64_t step);
  /// Ends the phase before it.
  void begin(parallel::Phase phase);
  void end();
  /// Collective after the last wanted step: writes the file.
  void end_step();
  /// Collective: writes the file if it is not written yet.
  void finish();

 private:
  void write();

  TraceOptions options_;
  parallel::ProcessGroup group_;
  std::function<void(const std::string&)> note_;
  std::optional<parallel::Timeline> timeline_;
  bool written_ = false;
};

}  // namespace muster::train
