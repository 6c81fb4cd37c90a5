// Parts of run(): its config as a study, its callbacks, its signals. Private to the room.
#pragma once

#include <functional>
#include <memory>

#include "muster/tune/core/study_spec.h"
#include "muster/tune/run/run.h"

namespace muster::tune {

/// Throws a usage error for a config that makes no sense.
StudySpec run_spec(const RunConfig& config);

/// RunConfig::on_events, then RunCallbacks of each event; empty if there are none. `config` outlives it.
EventObserver run_observer(const RunConfig& config);

/// While it lives, SIGINT and SIGTERM call `on_signal` on a thread of its own; a second one does
/// what they do otherwise. One at a time in a process.
class StopOnSignals {
 public:
  explicit StopOnSignals(std::function<void(int signal)> on_signal);
  ~StopOnSignals();
  StopOnSignals(const StopOnSignals&) = delete;
  StopOnSignals& operator=(const StopOnSignals&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::tune
