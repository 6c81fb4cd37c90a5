#include "cli/screen/console.h"

#include <cstdlib>
#include <iostream>

#include <sys/ioctl.h>
#include <unistd.h>

namespace muster::cli {

Console::Console(std::ostream& out, std::ostream& err, bool err_is_terminal, bool colour)
    : out_(out), err_(err), err_is_terminal_(err_is_terminal), colour_(colour) {}

Console Console::of_process() {
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool dumb = term == nullptr || std::string_view(term) == "dumb";
  return {std::cout,
          std::cerr,
          terminal && !dumb,
          terminal && !dumb && (no_color == nullptr || *no_color == '\0')};
}

int Console::width() const {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

void Console::error(std::string_view text) {
  err_ << (colour_ ? "\x1b[31;1mmuster: error:\x1b[0m " : "muster: error: ") << text << '\n'
       << std::flush;
}

void Console::note(std::string_view text) { err_ << "muster: " << text << '\n' << std::flush; }

}  // namespace muster::cli
