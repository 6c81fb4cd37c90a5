// Compiled by itself: curses.h has names of its own.
#include "cli/screen/full_screen.h"

#include <algorithm>
#include <array>
#include <clocale>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#define NCURSES_NOMACROS 1
#include <curses.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"

namespace muster::cli {
namespace {

constexpr std::array kEnding = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
constexpr std::array kCrashes = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

// For signal handlers, which have nothing else to go by.
int wake_pipe = -1;
volatile sig_atomic_t ending_signal = 0;
termios terminal_before;
char leave_bytes[256];
size_t leave_size = 0;

void on_ending(int signal) {
  const int before = errno;
  ending_signal = signal;
  [[maybe_unused]] const ssize_t put = ::write(wake_pipe, "!", 1);
  errno = before;
}

/// The program has crashed: whoever looks at its last words has a terminal to do it on.
void on_crash(int signal) {
  [[maybe_unused]] const ssize_t put = ::write(STDOUT_FILENO, leave_bytes, leave_size);
  ::tcsetattr(STDIN_FILENO, TCSANOW, &terminal_before);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

const char* capability(const char* name) {
  const char* text = ::tigetstr(name);
  return text == nullptr || text == reinterpret_cast<const char*>(-1) ? "" : text;
}

void keep_leaving_bytes() {
  const std::string bytes =
      concat(capability("sgr0"), capability("cnorm"), capability("rmkx"), capability("rmcup"));
  leave_size = std::min(bytes.size(), sizeof leave_bytes);
  std::memcpy(leave_bytes, bytes.data(), leave_size);
}

enum Pair : short { kGreen = 1, kYellow, kRed, kCyan };

attr_t attributes_of(Look look, bool colour) {
  const auto in = [&](short pair, attr_t instead) {
    return colour ? static_cast<attr_t>(COLOR_PAIR(pair)) : instead;
  };
  switch (look) {
    case Look::kPlain:
      return A_NORMAL;
    case Look::kTitle:
      return A_BOLD;
    case Look::kDim:
      return A_DIM;
    case Look::kHeader:
      return A_BOLD | A_UNDERLINE;
    case Look::kSelected:
      return A_REVERSE;
    case Look::kRunning:
      return in(kCyan, A_NORMAL);
    case Look::kGood:
      return in(kGreen, A_BOLD);
    case Look::kWarning:
      return in(kYellow, A_BOLD);
    case Look::kBad:
      return in(kRed, A_BOLD);
  }
  return A_NORMAL;
}

std::string utf8_of(wint_t code) {
  std::array<char, 8> bytes{};
  std::mbstate_t state{};
  const size_t size = ::wcrtomb(bytes.data(), static_cast<wchar_t>(code), &state);
  return size == static_cast<size_t>(-1) ? "" : std::string(bytes.data(), size);
}

Key special_key(wint_t code) {
  switch (code) {
    case KEY_UP:
      return {Key::kUp};
    case KEY_DOWN:
      return {Key::kDown};
    case KEY_LEFT:
      return {Key::kLeft};
    case KEY_RIGHT:
      return {Key::kRight};
    case KEY_PPAGE:
      return {Key::kPageUp};
    case KEY_NPAGE:
      return {Key::kPageDown};
    case KEY_HOME:
      return {Key::kHome};
    case KEY_END:
      return {Key::kEnd};
    case KEY_ENTER:
      return {Key::kEnter};
    case KEY_BACKSPACE:
    case KEY_DC:
      return {Key::kBackspace};
    case KEY_RESIZE:
      return {Key::kResized};
    default:
      return {};
  }
}

Key letter_key(wint_t code) {
  if (code == '\r' || code == '\n') return {Key::kEnter};
  if (code == 27) return {Key::kEscape};
  if (code == 127 || code == 8) return {Key::kBackspace};
  if (code < 32) return {};
  return {Key::kLetter, utf8_of(code)};
}

Error no_terminal(std::string why, const std::string& instead) {
  return usage_error({.refused = "no full screen here",
                      .rule = "stdin and stdout are a terminal that can move its cursor",
                      .value = std::move(why),
                      .hint = instead});
}

}  // namespace

struct FullScreen::State {
  SCREEN* screen = nullptr;
  bool colour = false;
  UniqueFd wake_read, wake_write;
  std::array<struct sigaction, kEnding.size()> ending_before{};
  std::array<struct sigaction, kCrashes.size()> crashes_before{};

  void set_handlers() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
      throw environment_error({.refused = "cannot make a pipe", .rule = errno_text(errno)});
    wake_read.reset(ends[0]);
    wake_write.reset(ends[1]);
    wake_pipe = ends[1];
    ending_signal = 0;
    struct sigaction action {};
    action.sa_handler = &on_ending;
    for (size_t i = 0; i < kEnding.size(); ++i) ::sigaction(kEnding[i], &action, &ending_before[i]);
    action.sa_handler = &on_crash;
    for (size_t i = 0; i < kCrashes.size(); ++i)
      ::sigaction(kCrashes[i], &action, &crashes_before[i]);
  }

  void restore_handlers() {
    for (size_t i = 0; i < kEnding.size(); ++i) ::sigaction(kEnding[i], &ending_before[i], nullptr);
    for (size_t i = 0; i < kCrashes.size(); ++i)
      ::sigaction(kCrashes[i], &crashes_before[i], nullptr);
    wake_pipe = -1;
  }

  void begin_colours() {
    ::start_color();
    ::use_default_colors();
    ::init_pair(kGreen, COLOR_GREEN, -1);
    ::init_pair(kYellow, COLOR_YELLOW, -1);
    ::init_pair(kRed, COLOR_RED, -1);
    ::init_pair(kCyan, COLOR_CYAN, -1);
  }
};

FullScreen::FullScreen(bool colour, const std::string& instead)
    : state_(std::make_unique<State>()) {
  if (::isatty(STDIN_FILENO) != 1) throw no_terminal("stdin is none", instead);
  if (::isatty(STDOUT_FILENO) != 1) throw no_terminal("stdout is none", instead);
  const char* term = std::getenv("TERM");
  if (term == nullptr || *term == '\0') throw no_terminal("TERM is not set", instead);
  ::tcgetattr(STDIN_FILENO, &terminal_before);
  // What this program prints is UTF-8 whatever the locale says; ncurses goes by the locale.
  if (std::setlocale(LC_CTYPE, "C.UTF-8") == nullptr) std::setlocale(LC_CTYPE, "");
  state_->screen = ::newterm(nullptr, stdout, stdin);
  if (state_->screen == nullptr) throw no_terminal(concat("TERM=", term), instead);
  if (*capability("cup") == '\0') {
    ::endwin();
    ::delscreen(state_->screen);
    throw no_terminal(concat("TERM=", term), instead);
  }
  keep_leaving_bytes();
  state_->set_handlers();
  ::cbreak();
  ::noecho();
  ::nonl();
  ::keypad(stdscr, TRUE);
  ::nodelay(stdscr, TRUE);
  ::set_escdelay(25);
  ::curs_set(0);
  state_->colour = colour && ::has_colors();
  if (state_->colour) state_->begin_colours();
}

FullScreen::~FullScreen() {
  ::endwin();
  state_->restore_handlers();
  ::delscreen(state_->screen);
}

size_t FullScreen::columns() const { return static_cast<size_t>(std::max(getmaxx(stdscr), 1)); }
size_t FullScreen::rows() const { return static_cast<size_t>(std::max(getmaxy(stdscr), 1)); }

void FullScreen::show(const Canvas& canvas) {
  ::erase();
  for (size_t row = 0; row < canvas.rows(); ++row) {
    for (size_t column = 0; column < canvas.columns();) {
      // Runs of one look; behind a wide letter the column is said anew, should widths differ.
      const Look look = canvas.at(row, column).look;
      const auto from = static_cast<int>(column);
      std::string run;
      bool is_wide = false;
      for (; column < canvas.columns() && canvas.at(row, column).look == look && !is_wide;
           ++column) {
        const std::string& letter = canvas.at(row, column).letter;
        is_wide = column + 1 < canvas.columns() && canvas.at(row, column + 1).letter.empty();
        run += letter;
      }
      if (is_wide) ++column;
      ::attrset(static_cast<int>(attributes_of(look, state_->colour)));
      ::mvaddstr(static_cast<int>(row), from, run.c_str());
    }
  }
  ::refresh();
}

Key FullScreen::wait(double timeout_s, int wake_fd) {
  const auto next_key = [&]() -> Key {
    wint_t code = 0;
    const int kind = ::get_wch(&code);
    if (kind == KEY_CODE_YES) return special_key(code);
    return kind == OK ? letter_key(code) : Key{};
  };
  if (ending_signal != 0) return {Key::kInterrupt};
  if (const Key key = next_key(); key.kind != Key::kNothing) return key;
  pollfd ready[] = {
      {STDIN_FILENO, POLLIN, 0}, {state_->wake_read.get(), POLLIN, 0}, {wake_fd, POLLIN, 0}};
  const int got = ::poll(ready, 3, static_cast<int>(std::ceil(std::max(timeout_s, 0.0) * 1000)));
  if (ending_signal != 0) return {Key::kInterrupt};
  if (got > 0 && (ready[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0)
    return {Key::kInterrupt};  // the terminal is gone
  return next_key();           // also without input: a signal may have brought another size
}

}  // namespace muster::cli
