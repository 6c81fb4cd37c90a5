#include "muster/program/screen/console.h"

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

}  // namespace
}  // namespace muster::program
