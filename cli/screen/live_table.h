// The status of a running study on stderr: a table that is drawn in place, or lines for a log.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "muster/program/screen/console.h"
#include "muster/program/screen/screen_writer.h"
#include "muster/tune/views/status_view.h"

namespace muster::cli {

/// On a terminal: the table, at most once a second and as wide and high as the window, with what
/// went wrong as lines above it. Elsewhere: a line per change. Writes from a thread of its own;
/// while it is there, nobody else may write to the console. One thread may call.
class LiveTable {
 public:
  /// `options.width` counts where there is no terminal; `options.max_rows` is the most.
  LiveTable(program::Console& console, tune::StatusOptions options);

  /// For tests: `screen` in the place of the console's stderr.
  LiveTable(program::ScreenWriter::Options screen, tune::StatusOptions options);

  void on_events(const tune::StudyCore& core, std::span<const tune::Event> events);
  void redraw(const tune::StudyCore& core, const tune::StatusFacts& facts);
  void note(std::string_view text);

  /// The closing table, on a terminal no higher than the window, and the first line of
  /// tune::summary, also into a log; afterwards the console is the caller's again. The result itself is the caller's to write, to stdout.
  void finish(const tune::StudyCore& core, const tune::StatusFacts& facts);

 private:
  bool terminal_;
  double least_gap_s_;
  std::function<program::ScreenWriter::Size()> size_;
  tune::StatusOptions options_;
  program::ScreenWriter writer_;
  double drawn_s_ = 0;
};

/// The table with as many rows as `size` has room for, and fewer columns where it takes that. Pure.
std::string table_within(const tune::StudyCore& core,
                         const tune::StatusFacts& facts,
                         tune::StatusOptions options,
                         const program::ScreenWriter::Size& size);

}  // namespace muster::cli
