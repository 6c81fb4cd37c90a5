#include "muster/program/screen/console.h"

#include <sstream>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace muster::program {
namespace {

// As `muster report` without them: what it prints went into its socket.
TEST(ConsoleDeathTest, NothingBecomesAStandardStreamThatIsClosed) {
  const auto open_without_streams = [] {
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(fd);
    const Console console = Console::of_process();
    const int next = ::open("/dev/null", O_WRONLY);
    const bool is_closed = ::write(STDOUT_FILENO, "x", 1) < 0 && ::write(STDERR_FILENO, "x", 1) < 0;
    ::_exit(next > STDERR_FILENO && is_closed ? 0 : 1);
  };
  EXPECT_EXIT(open_without_streams(), ::testing::ExitedWithCode(0), "");
}

// A column that is called as a terminal's command.
TEST(Console, ErrorsAndNotesSteerNoTerminal) {
  std::ostringstream out, err;
  Console console(out, err, /*err_is_terminal=*/true, /*colour=*/false);
  console.error(usage_error({.refused = "a\x1b]0;title\x07z", .rule = "b\r\xE9", .hint = "c\td"}));
  EXPECT_EQ(err.str(), "muster: error: a?]0;title?z: b??\nhint: c\td\n");
  err.str("");
  console.note("x\x1b[2Jy\nz");
  EXPECT_EQ(err.str(), "muster: x?[2Jy\nz\n");
}

}  // namespace
}  // namespace muster::program
