// Ray Tune's CLIReporter, for studies of C++ functions.
#pragma once

#include <functional>
#include <iosfwd>
#include <span>

#include "muster/tune/core/event.h"
#include "muster/tune/core/study_core.h"
#include "muster/tune/views/status_view.h"

namespace muster::tune {

struct TableReporterOptions {
  double max_report_frequency = 5;  ///< seconds between tables, as Ray names it
  StatusOptions status;             ///< width, rows, columns
};

/// For RunConfig::on_events: writes the table of `muster tune` to `out` when something happens and
/// the last one is old enough, and when the last trial has ended, with the best one. By the times of
/// events, so a study in which nothing happens writes nothing.
///
///     tune::run(&train, {…, .on_events = tune::table_reporter(std::cerr)});
///
/// `out` outlives it. Copies share what was written when. One study.
std::function<void(const StudyCore& core, std::span<const Event> events)> table_reporter(
    std::ostream& out, const TableReporterOptions& options = {});

}  // namespace muster::tune
