#include "muster/program/screen/console.h"

#include <cerrno>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace muster::program {
namespace {

/// Exits with 0 if what was closed is nobody's number, and cannot be written to.
[[noreturn]] void open_behind_closed_streams() {
  ::close(STDIN_FILENO);
  ::close(STDOUT_FILENO);
  hold_standard_streams();
  const int opened = ::open("/dev/null", O_RDWR);
  const bool fails = ::write(STDOUT_FILENO, "x", 1) < 0 && errno == EBADF;
  ::_exit(opened > STDERR_FILENO && fails ? 0 : 1);
}

TEST(Console, NothingThatIsOpenedGetsTheNumberOfAClosedStream) {
  EXPECT_EXIT(open_behind_closed_streams(), ::testing::ExitedWithCode(0), "");
}

TEST(Console, OpenStreamsStayAsTheyAre) {
  const int next = ::dup(STDERR_FILENO);
  ::close(next);
  hold_standard_streams();
  const int same = ::dup(STDERR_FILENO);
  ::close(same);
  EXPECT_EQ(same, next);
}

}  // namespace
}  // namespace muster::program
