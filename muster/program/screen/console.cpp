#include "muster/program/screen/console.h"

#include <cerrno>
#include <cstdlib>
#include <iostream>
#include <utility>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/program/screen/terminal_buffer.h"

namespace muster::program {

Console::Console(
    std::ostream& out, std::ostream& err, bool err_is_terminal, bool colour, std::string name)
    : out_(out),
      err_(err),
      err_is_terminal_(err_is_terminal),
      colour_(colour),
      name_(std::move(name)) {}

namespace {

/// Of a process that was started without one of its standard streams, what it opens next would get
/// that number, and what is printed would go there. Such a stream stays one that cannot be written.
void hold_standard_streams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    // open() takes the lowest number that is free
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF && ::open("/dev/null", O_RDONLY) < 0) return;
  }
}

}  // namespace

Console Console::of_process(std::string name) {
  hold_standard_streams();
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool dumb = term == nullptr || std::string_view(term) == "dumb";
  static TerminalBuffer shown(*std::cout.rdbuf());
  static std::ostream to_terminal(&shown);
  return {::isatty(STDOUT_FILENO) == 1 ? to_terminal : std::cout,
          std::cerr,
          terminal && !dumb,
          terminal && !dumb && (no_color == nullptr || *no_color == '\0'),
          std::move(name)};
}

int Console::width() const {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

namespace {

std::string_view word_of(ErrorKind kind) {
  if (kind == ErrorKind::kUsage) return "usage";
  return kind == ErrorKind::kEnvironment ? "environment" : "internal";
}

}  // namespace

void Console::error(const Error& error) {
  if (!json_errors_) return this->error(error.what());
  const ErrorText& text = error.text();
  const Json json{{"kind", word_of(error.kind())},
                  {"refused", text.refused},
                  {"rule", text.rule},
                  {"value", text.value},
                  {"hint", text.hint},
                  {"text", error.what()}};
  err_ << json_text(Json{{"error", json}}) << '\n' << std::flush;
}

void Console::error(std::string_view text) {
  if (json_errors_) {
    const Json json{{"text", text}};
    err_ << json_text(Json{{"error", json}}) << '\n' << std::flush;
    return;
  }
  const std::string head = name_ + ": error:";
  // In one write: lines of ranks that share a terminal or a launcher do not mix.
  // Names of files and what stands in them may be anything: none of it steers the terminal.
  err_ << concat(colour_ ? concat("\x1b[31;1m", head, "\x1b[0m ") : head + ' ',
                 printable_lines(text),
                 '\n')
       << std::flush;
}

void Console::finish_out() {
  if (out_ << std::flush) return;
  // Which write failed, and why, the stream does not know; the next one fails alike.
  const int why = ::write(STDOUT_FILENO, "\n", 1) < 0 ? errno : 0;
  if (why == EPIPE) return;
  throw environment_error({.refused = "cannot write to stdout",
                           .rule = why != 0 ? errno_text(why) : "not all was written"});
}

void Console::note(std::string_view text) {
  err_ << concat(name_, ": ", printable_lines(text), '\n') << std::flush;
}

}  // namespace muster::program
