// Fault plans strike in groups that were made from the one that they were given to.
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/distributed/process_group.h"
#include "muster/testing/run_ranks.h"

#include "tests/support/error_of.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> errors_with(const std::string& faults,
                                     int world_size,
                                     const std::function<void(ProcessGroup)>& rank_main) {
  return testing::rank_errors(world_size, rank_main, {.monitor = {.faults = faults}});
}

/// Two messages from the last rank to the one before, in a group of these two.
void two_messages(const ProcessGroup& world) {
  const int last = world.world_size() - 1;
  distributed::mark_step(world, 4);
  const auto pair = world.subgroup({last, last - 1});
  if (!pair) return;
  const at::Tensor tensor = torch::ones({2});
  for (int i = 0; i < 2; ++i) {
    if (pair->rank() == 0)
      pair->send(tensor, 1);
    else
      EXPECT_EQ(pair->recv(tensor, 0), 0);
  }
}

// Rank 2 of the world is rank 0 of the pair.
TEST(FaultPlanOfGroups, StrikesMessagesByTheRankOfTheFirstGroup) {
  const std::string second = "throw@rank=2,op=send,at=2";
  EXPECT_THAT(errors_with(second, 3, &two_messages)[2], HasSubstr("fault plan \"" + second + "\""));
  const std::string in_step = "throw@rank=1,op=recv,step=4";
  EXPECT_THAT(errors_with(in_step, 3, &two_messages)[1], HasSubstr(in_step));
  for (const char* other : {"throw@rank=0,op=send", "throw@op=send,at=3", "throw@op=recv,step=5"})
    EXPECT_THAT(errors_with(other, 3, &two_messages), Each(IsEmpty())) << other;
}

TEST(FaultPlanOfGroups, CountsCallsOfAllGroupsTogether) {
  const auto calls = [](const ProcessGroup& world) {
    const auto part = world.split(0, world.rank());
    const at::Tensor tensor = torch::ones({2});
    world.all_reduce(tensor);
    part->all_reduce(tensor);
    world.all_reduce(tensor);
    EXPECT_TRUE(tensor.isnan().any().item<bool>());
  };
  EXPECT_THAT(errors_with("nan@rank=0,op=all_reduce,at=2", 2, calls), Each(IsEmpty()));
}

TEST(FaultPlanOfGroups, AMessageThatIsSkippedSaysWhoseItWouldBe) {
  const auto skipped = [](const ProcessGroup& group) {
    const at::Tensor tensor = torch::zeros({2});
    if (group.rank() == 1) EXPECT_EQ(group.recv(tensor, 0), 0);
    EXPECT_EQ(tensor.sum().item<float>(), 0);
  };
  EXPECT_THAT(errors_with("skip@rank=1,op=recv", 2, skipped), Each(IsEmpty()));
}

TEST(FaultPlanInThreads, ThatWouldKillTheProcessIsRefused) {
  const std::string error = test::error_of(
      [] { testing::run_ranks(2, [](ProcessGroup) {}, {.monitor = {.faults = "kill@rank=1"}}); });
  EXPECT_THAT(error, HasSubstr("the ranks are threads of one process"));
}

}  // namespace
}  // namespace muster
