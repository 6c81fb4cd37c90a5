// What a running study shows: Ray Tune's CLIReporter table, and one line per change.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "muster/tune/core/status_facts.h"
#include "muster/tune/core/study_core.h"

namespace muster::tune {

struct StatusOptions {
  size_t width = 80;     ///< columns of the terminal
  size_t max_rows = 20;  ///< trials shown, shared fairly over the states
  /// Metric, title; empty: inferred.
  std::vector<std::pair<std::string, std::string>> metric_columns;
  bool sort_by_metric = false;
  bool final = false;  ///< the closing table: all trials up to max_rows, no ETA
  /// For a low window. Columns that would take a second grid are left out, and named: parameters
  /// before metrics, those with one value first. Of trials that failed the newest is told.
  bool one_grid = false;
};

/// The whole table, lines ended by "\n". Pure.
std::string status_table(const StudyCore& core,
                         const StatusFacts& facts,
                         const StatusOptions& options);

/// One line for an event, or nothing for one that is not worth a line: "trial 3 stopped at rung 4:
/// 0.412 < cutoff 0.437 (n=9)  [lr=0.01 l1=64]".
std::optional<std::string> event_line(const StudyCore& core, const Event& event);

/// The closing lines: counts of trials, steps (epochs, say) spent and time; storage; the best trial
/// with its parameters.
std::string summary(const StudyCore& core, const StatusFacts& facts);

}  // namespace muster::tune
