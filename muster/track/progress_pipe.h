// The way of a rank's progress to its launcher.
#pragma once

#include "muster/track/progress.h"

namespace muster::track {

/// Writes events to the descriptor that `muster run` names (kProgressFdEnv); without one nothing
/// happens. One thread. A launcher that reads no more does not stop the rank, if SIGPIPE is ignored.
class ProgressPipe {
 public:
  ProgressPipe();
  void write(const ProgressEvent& event);

 private:
  int fd_ = -1;
};

}  // namespace muster::track
