// Runs a study whose trials are started by an executor: programs of any language.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "muster/tune/core/status_facts.h"
#include "muster/tune/execute/executor.h"
#include "muster/tune/machine/resources.h"
#include "muster/tune/run/study.h"

namespace muster::tune {

/// Where a tuner tells what goes on. Empty functions are left out.
struct TunerView {
  std::function<void(const std::string& line)> note;  ///< a line for the user
  /// Now and then, at most once per `tick_s`, and after changes.
  std::function<void(const StudyCore& core, const StatusFacts& facts)> tick;
  double tick_s = 1;
};

struct TunerOutcome {
  bool interrupted = false;  ///< by a signal or `muster study stop`; the study can be resumed
  bool failed = false;       ///< trials fail, so that it was given up (StudySpec::fail_fast)
  std::string stopped;       ///< why no more trials were started, or empty
};

/// Runs the study to its end, beside others who ask for single trials of it: when all that is left
/// is theirs it ends, too. One thread, which must be the one that made the executor. Throws an
/// environment error if events cannot be stored for spec.storage_patience_s: trials are ended then,
/// and nothing that a trial was told is lost.
TunerOutcome run_study(Study& study,
                       const StudySpec& spec,
                       Executor& executor,
                       ResourcePool& pool,
                       const TunerView& view = {});

}  // namespace muster::tune
