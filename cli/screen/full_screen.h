// The whole terminal as a canvas, with keys: ncurses behind an interface of ours.
#pragma once

#include <memory>
#include <string>

#include "cli/screen/canvas.h"

namespace muster::cli {

/// What a user pressed.
struct Key {
  enum Kind {
    kNothing,  ///< the time is over
    kLetter,   ///< `letter`, one code point of UTF-8
    kEnter,
    kEscape,
    kBackspace,
    kUp,
    kDown,
    kLeft,
    kRight,
    kPageUp,
    kPageDown,
    kHome,
    kEnd,
    kResized,    ///< the terminal has another size
    kInterrupt,  ///< a signal asks the program to end
  } kind = kNothing;
  std::string letter = {};
  friend bool operator==(const Key&, const Key&) = default;
};

/// The terminal of stdin and stdout, from construction to destruction: on its alternate screen, keys
/// one by one, no echo. It is given back as it was on every way out, also by SIGINT, SIGTERM, SIGHUP,
/// SIGQUIT (which wait() tells as kInterrupt), a crash of this program, and while Ctrl-Z has stopped
/// it. One at a time; one thread.
class FullScreen {
 public:
  /// Throws a usage error without a terminal, and for one that cannot move its cursor. `instead`: for
  /// the hint, what tells the same without a terminal.
  FullScreen(bool colour, const std::string& instead);
  ~FullScreen();
  FullScreen(const FullScreen&) = delete;
  FullScreen& operator=(const FullScreen&) = delete;

  size_t columns() const;
  size_t rows() const;

  /// Only what differs from what is there is written.
  void show(const Canvas& canvas);

  /// The next key, at most so long, and no longer than until `wake_fd` can be read (-1: none), which
  /// is kNothing as well.
  Key wait(double timeout_s, int wake_fd = -1);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster::cli
