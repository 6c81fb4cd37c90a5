// A rank that is stopped when its job ends on another machine. The machines are this one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/text.h"

#include "tests/support/held_port.h"
#include "tests/support/launched.h"

namespace muster::testing_process {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct MachineEnd {
  int code = -1;
  std::string err;
  bool nothing_left = false;
};

/// What becomes of the launchers of two machines with a rank each.
std::vector<MachineEnd> ends_of_two(const std::string& modes, const std::string& grace = "30") {
  const test::HeldPort port;
  const auto line = [&](int node) {
    return run_line({"--nnodes",
                     "2",
                     "--node-rank",
                     std::to_string(node),
                     "--rdzv-endpoint",
                     concat("127.0.0.1:", port.number),
                     "--shutdown-timeout",
                     grace},
                    modes);
  };
  Launched zero(line(0)), one(line(1));
  std::vector<MachineEnd> ends;
  for (Launched* job : {&zero, &one}) {
    const int code = job->wait().code;
    ends.push_back({code, job->err(), job->nothing_left()});
    EXPECT_TRUE(ends.back().nothing_left);
  }
  return ends;
}

TEST(StoppedRank, IsToldToEndWhenItsJobHasEndedOnTheOtherMachine) {
  const auto ends = ends_of_two("link-then-exit:0,link-then-stop:0");
  EXPECT_EQ(ends[0].code, 0) << ends[0].err;
  EXPECT_EQ(ends[1].code, 1);
  EXPECT_THAT(ends[1].err,
              AllOf(HasSubstr("rank 1 is stopped, and the ranks that it is connected with have "
                              "ended: it is told to end, and has 30 s for it"),
                    HasSubstr(" was stopped when the rest of its job ended, and told to end: "
                              "signal SIGTERM (Terminated)"),
                    Not(HasSubstr("hint: the kernel"))));
}

TEST(StoppedRank, IsToldToEndAlsoWhereItServedTheStore) {
  const auto ends = ends_of_two("link-then-stop:0,link-then-exit:3");
  EXPECT_EQ(ends[0].code, 1);
  EXPECT_THAT(ends[0].err,
              HasSubstr("rank 0 is stopped, and the ranks that it is connected with "));
  EXPECT_EQ(ends[1].code, 1);
  EXPECT_THAT(ends[1].err, HasSubstr("rank 1 (pid "));
}

TEST(StoppedRank, IsKilledAfterTheGraceTimeAndNamed) {
  const auto ends = ends_of_two("link-then-exit:0,link-then-stop:stubborn", "0.2");
  EXPECT_EQ(ends[1].code, 1);
  EXPECT_THAT(ends[1].err,
              AllOf(HasSubstr("rank 1 did not end within 0.2 s of the signal: killing it"),
                    HasSubstr("told to end: signal SIGKILL (Killed)"),
                    Not(HasSubstr("memory runs out"))));
}

}  // namespace
}  // namespace muster::testing_process
