// Parts of run(): its config as a study, its callbacks. Private to the room.
#pragma once

#include "muster/tune/core/study_spec.h"
#include "muster/tune/run/run.h"

namespace muster::tune {

/// Throws a usage error for a config that makes no sense.
StudySpec run_spec(const RunConfig& config);

/// RunConfig::on_events, then RunCallbacks of each event; empty if there are none. `config` outlives it.
EventObserver run_observer(const RunConfig& config);

}  // namespace muster::tune
