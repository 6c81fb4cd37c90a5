// One rank's side of the steps, beside a peer that is only its lines in the segment.
#include "muster/distributed/shm/shm_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace muster {
namespace {

using distributed::OpSignature;
using distributed::RankState;
using distributed::ShmSegment;
using distributed::ShmSteps;
using ::testing::AllOf;
using ::testing::HasSubstr;

class ShmStepsBesideAPeer : public ::testing::Test {
 protected:
  ShmStepsBesideAPeer() {
    signature_.op = static_cast<uint8_t>(c10d::OpType::BROADCAST);
    signature_.sequence = 7;
    for (OpSignature& slot : peer().signatures) slot = signature_;
  }

  distributed::RankBlock& peer() { return segment_->rank(0); }
  /// The peer came to all steps up to this one.
  void peer_comes_to(uint32_t step) {
    peer().posted = step;
    ++segment_->head().arrived;
  }
  std::string turn() {
    return test::error_of([&] {
      steps_.begin(signature_, std::chrono::seconds(5));
      steps_.turn();
    });
  }

  std::shared_ptr<ShmSegment> segment_ = ShmSegment::local(2);
  ShmSteps steps_{segment_, 1, {0, 1}};
  OpSignature signature_;
};

TEST_F(ShmStepsBesideAPeer, AStepThatAllCameToIsDoneThoughThePeerFailedAtTheNext) {
  peer_comes_to(1);
  peer().posted = 2;
  segment_->set_state(0, RankState::kFailed, "its disk is full");
  EXPECT_EQ(turn(), test::kNoError);
  EXPECT_THAT(turn(),
              AllOf(HasSubstr("broadcast"), HasSubstr("#7"), HasSubstr("its disk is full")));
}

TEST_F(ShmStepsBesideAPeer, AStepThatThePeerHasGivenUpFails) {
  peer_comes_to(1);
  segment_->set_state(0, RankState::kFailed, "timed out after 10 ms");
  EXPECT_THAT(turn(), HasSubstr("timed out after 10 ms"));
}

TEST_F(ShmStepsBesideAPeer, AStepIsDoneIfThePeerEndedBehindIt) {
  peer_comes_to(1);
  segment_->set_state(0, RankState::kEnded);
  EXPECT_EQ(turn(), test::kNoError);
  EXPECT_THAT(turn(), AllOf(HasSubstr("rank 0 did not come"), HasSubstr("rank 0 has ended")));
}

TEST(ShmStepsBesidePeers, WhoIsGoneIsNamedAndNotWhoIsLateOrFailedOfIt) {
  const std::shared_ptr<ShmSegment> segment = ShmSegment::local(4);
  ShmSteps steps(segment, 3, {0, 1, 2, 3});
  segment->set_state(1, RankState::kFailed, "rank 2 has ended");
  segment->set_state(2, RankState::kEnded);
  EXPECT_THAT(test::error_of([&] {
                steps.begin({}, std::chrono::seconds(5));
                steps.turn();
              }),
              HasSubstr("rank 2 did not come, rank 3 waited (rank 2 has ended)"));
}

// What waits in the queue of a rank that leaves is still begun; the peers read the step before it.
TEST_F(ShmStepsBesideAPeer, WhatIsBegunAfterTheEndLeavesTheStepThatPeersReadAsItWas) {
  steps_.end();
  segment_->rank(1).signatures[1] = signature_;
  OpSignature next = signature_;
  next.op = static_cast<uint8_t>(c10d::OpType::ALLREDUCE);
  EXPECT_THAT(test::error_of([&] { steps_.begin(next, std::chrono::seconds(5)); }),
              HasSubstr("the group was destroyed"));
  EXPECT_TRUE(segment_->rank(1).signatures[1].fits(signature_));
}

}  // namespace
}  // namespace muster
