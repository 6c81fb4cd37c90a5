#include "muster/launch/job/stopped_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class StoppedRanksTest : public ::testing::Test {
 protected:
  /// Behind so many looks.
  std::vector<int64_t> seen(int looks) {
    std::vector<int64_t> left;
    for (int i = 0; i < looks; ++i) left = ranks_.look();
    return left;
  }
  std::map<pid_t, PeerLinks> links_;
  StoppedRanks ranks_{[this](pid_t pid) { return links_[pid]; }};
};

TEST_F(StoppedRanksTest, AreLeftWhenAllTheirConnectionsAreClosedForSomeTime) {
  links_[10] = {.open = 2, .closed = 0};
  ranks_.add(1, 10);
  EXPECT_THAT(seen(9), IsEmpty());
  links_[10] = {.open = 0, .closed = 2};
  EXPECT_THAT(seen(StoppedRanks::kLooks - 1), IsEmpty());
  EXPECT_THAT(seen(1), ElementsAre(1));
}

TEST_F(StoppedRanksTest, AreNotLeftWhileOneRankIsThere) {
  links_[10] = {.open = 1, .closed = 3};  // rank 0 of a job on three machines
  ranks_.add(0, 10);
  EXPECT_THAT(seen(9), IsEmpty());
}

TEST_F(StoppedRanksTest, AreLeftAlsoWhenTheirConnectionsWereReset) {
  links_[10] = {.open = 1, .closed = 0};
  ranks_.add(1, 10);
  links_[10] = {};
  EXPECT_THAT(seen(StoppedRanks::kLooks), ElementsAre(1));
}

TEST_F(StoppedRanksTest, WithoutConnectionsAreWaitedFor) {
  ranks_.add(1, 10);
  EXPECT_THAT(seen(9), IsEmpty());
}

TEST_F(StoppedRanksTest, ThatGoOnAreForgotten) {
  links_[10] = {.open = 0, .closed = 1};
  ranks_.add(1, 10);
  EXPECT_THAT(seen(StoppedRanks::kLooks - 1), IsEmpty());
  ranks_.remove(1);
  EXPECT_TRUE(ranks_.empty());
  ranks_.add(1, 10);
  EXPECT_THAT(seen(StoppedRanks::kLooks - 1), IsEmpty());
  EXPECT_THAT(seen(1), ElementsAre(1));
}

}  // namespace
}  // namespace muster::launch
