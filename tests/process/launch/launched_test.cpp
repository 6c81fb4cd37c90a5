// What a kill loop leans on: a launch that is dropped at any instant is gone with all that it began.
#include "tests/support/launched.h"

#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/types.h>

namespace muster::testing_process {
namespace {

TEST(Launched, IsGoneHoweverEarlyItIsDropped) {
  // From before its exec, where it does not carry its token yet, to the start of its ranks.
  for (int i = 0; i < 40; ++i) {
    std::vector<pid_t> seen;
    pid_t launcher = -1;
    {
      Launched launched(run_line({"--nproc-per-node", "2"}, "wait"));
      launcher = launched.pid();
      ::poll(nullptr, 0, i / 4);
      seen = launched.processes();
    }
    EXPECT_FALSE(is_alive(launcher));
    for (const pid_t pid : seen) EXPECT_FALSE(is_alive(pid)) << "after " << i / 4 << " ms";
  }
}

}  // namespace
}  // namespace muster::testing_process
