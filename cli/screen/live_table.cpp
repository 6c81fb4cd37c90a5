#include "cli/screen/live_table.h"

#include <algorithm>
#include <iostream>
#include <utility>

#include <errno.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "muster/base/text.h"

namespace muster::cli {
namespace {

/// To stderr, which someone may have made non-blocking. Errors: there is nobody to tell.
void write_stderr(std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(STDERR_FILENO, text.data(), text.size());
    if (put >= 0) {
      text.remove_prefix(static_cast<size_t>(put));
    } else if (errno == EAGAIN) {
      pollfd ready{STDERR_FILENO, POLLOUT, 0};
      ::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return;
    }
  }
}

program::ScreenWriter::Size size_of_stderr() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0)
    return {};
  return {size.ws_col, size.ws_row};
}

program::ScreenWriter::Options screen_of(program::Console& console) {
  program::ScreenWriter::Options options{
      .write = [&err = console.err()](std::string_view text) { err << text << std::flush; },
      .terminal = console.err_is_terminal()};
  if (&console.err() != &std::cerr) return options;
  options.write = &write_stderr;
  options.size = &size_of_stderr;
  return options;
}

/// On a terminal the table says the rest.
bool is_worth_a_line_above(const tune::Event& event) {
  if (const auto* ended = std::get_if<tune::AttemptEnded>(&event.what))
    return ended->failure != tune::Failure::kNone;
  return std::holds_alternative<tune::TunerNote>(event.what);
}

// Behind the closing table: the totals, and what the caller says of the best trial.
constexpr size_t kLastLines = 4;

/// Without so many of its rows: the head of the closing table stays in sight, too.
program::ScreenWriter::Size below(program::ScreenWriter::Size size, size_t rows) {
  size.rows -= std::min(size.rows - 1, rows);
  return size;
}

}  // namespace

std::string table_within(const tune::StudyCore& core,
                         const tune::StatusFacts& facts,
                         tune::StatusOptions options,
                         const program::ScreenWriter::Size& size) {
  // One column stays free, since some terminals move on to the next line in the last one; one row
  // is the cursor's.
  options.width = std::max<size_t>(size.columns, 2) - 1;
  for (;;) {
    std::string table = status_table(core, facts, options);
    const auto lines = static_cast<size_t>(std::ranges::count(table, '\n'));
    if (lines < size.rows) return table;
    if (!options.one_grid) {  // more trials say more than all of their columns
      options.one_grid = true;
      continue;
    }
    if (options.max_rows <= 1) return table;
    const size_t excess = lines + 1 - size.rows;
    options.max_rows -= std::min(options.max_rows - 1, std::max<size_t>(1, excess / 2));
  }
}

LiveTable::LiveTable(program::Console& console, tune::StatusOptions options)
    : LiveTable(screen_of(console), std::move(options)) {}

LiveTable::LiveTable(program::ScreenWriter::Options screen, tune::StatusOptions options)
    : terminal_(screen.terminal),
      least_gap_s_(screen.least_gap_s),
      size_(screen.size),
      options_(std::move(options)),
      writer_(std::move(screen)) {}

void LiveTable::on_events(const tune::StudyCore& core, std::span<const tune::Event> events) {
  for (const tune::Event& event : events) {
    if (terminal_ && !is_worth_a_line_above(event)) continue;
    if (const auto line = event_line(core, event)) writer_.line(*line);
  }
}

void LiveTable::redraw(const tune::StudyCore& core, const tune::StatusFacts& facts) {
  // With many trials a table takes milliseconds: none is made that would not be shown.
  if (!terminal_ || facts.now_s - drawn_s_ < least_gap_s_) return;
  drawn_s_ = facts.now_s;
  writer_.draw(table_within(core, facts, options_, size_()));
}

void LiveTable::note(std::string_view text) {
  const char* head = "muster: ";
  for (const std::string& line : split(text, '\n'))
    writer_.line(concat(std::exchange(head, ""), line));
}

void LiveTable::finish(const tune::StudyCore& core, const tune::StatusFacts& facts) {
  tune::StatusOptions options = options_;
  options.final = true;
  const std::string totals = tune::summary(core, facts);
  std::string text = terminal_ ? table_within(core, facts, options, below(size_(), kLastLines))
                               : status_table(core, facts, options);
  text += first_line(totals);
  if (terminal_) {
    writer_.draw(std::move(text) + '\n');
  } else {
    writer_.line(text);
  }
  writer_.close();
}

}  // namespace muster::cli
