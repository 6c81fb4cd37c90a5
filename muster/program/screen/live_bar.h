// The program's output while work goes on: whole lines, with a progress bar that stays below them
// on a terminal.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "muster/program/screen/console.h"
#include "muster/track/progress.h"

namespace muster::program {

/// Where a LiveBar writes. The defaults are those of a program without a terminal.
struct LiveBarOptions {
  int out_fd = 1;
  int err_fd = 2;
  bool out_is_terminal = false;
  /// The bar is drawn here; without a terminal it is a plain line now and then.
  bool err_is_terminal = false;
  bool colour = false;
  /// Columns; asked at each drawing, so the bar follows the window.
  std::function<int()> width = [] { return 80; };
};

/// Writes from a thread of its own, so that a reader who is slow (a pager, a stopped terminal)
/// holds up neither signals nor ranks. Lines keep their order over both streams. The bar is drawn
/// at most 15 times a second. Any thread may call.
class LiveBar {
 public:
  explicit LiveBar(LiveBarOptions options);

  /// For this process's streams.
  explicit LiveBar(const Console& console);

  /// `finish` without a limit.
  ~LiveBar();

  void update(const track::ProgressEvent& event);
  void print_out(std::string_view line);  ///< to stdout; a line end is added
  void print_err(std::string_view line);  ///< to stderr

  /// More than kMostPendingBytes wait to be written: give no more lines until wake_fd is readable.
  bool congested();
  int wake_fd() const;
  static constexpr size_t kMostPendingBytes = 1 << 20;

  /// Takes the bar away, writes what is left and stops the thread. False if that took longer than
  /// `patience_s` (negative: no limit); the rest is then lost when the process ends.
  bool finish(double patience_s = -1);

  /// Why writing failed (a full disk behind stdout), or empty. What came after is lost.
  std::string trouble() const;

 private:
  struct State;
  static void write_loop(State& state);
  // Shared with the thread, which may be left behind stuck in a write.
  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace muster::program
