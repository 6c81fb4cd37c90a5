#include "muster/pipeline/order/lower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/pipeline/order/check.h"

#include "tests/support/error_of.h"

namespace muster::pipeline {
namespace {

using test::refusal_of;
using ::testing::HasSubstr;

ActionLists two_stages() { return parse_csv("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"); }

TEST(PipelineLower, BufferedMessagesStandRightBesideTheirActions) {
  EXPECT_EQ(to_csv(lower(two_stages(), Sends::kBuffered)),
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
            "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n");
}

// Rank 0 is done with its second forward while rank 1 computes: it is received before the first
// gradient is sent.
TEST(PipelineLower, RendezvousMessagesStandWhereTheyAreReady) {
  EXPECT_EQ(to_csv(lower(two_stages(), Sends::kRendezvous)),
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
            "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n");
}

TEST(PipelineLower, NothingIsSentWithinARank) {
  const ActionLists lists = parse_csv("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n");
  EXPECT_EQ(to_csv(lower(lists, Sends::kBuffered)),
            "0F0,0SEND_F0,3RECV_F0,3F0,3B0,3SEND_B0,0RECV_B0,0B0\n"
            "1RECV_F0,1F0,2F0,2SEND_F0,2RECV_B0,2B0,1B0,1SEND_B0\n");
}

TEST(PipelineLower, AveragesStandBehindTheLastBackwardOfEachStage) {
  const ActionLists lists = parse_csv("0F0,2F0,2I0,2W0,0B0\n1F0,1I0,1W0\n");
  const ActionLists averaged = with_averages(lists);
  EXPECT_EQ(to_csv(averaged),
            "0F0,2F0,2I0,2W0,2REDUCE_GRAD,0B0,0REDUCE_GRAD\n1F0,1I0,1W0,1REDUCE_GRAD\n");
  EXPECT_EQ(with_averages(averaged), averaged);
}

TEST(PipelineLower, RefusesListsThatCannotRunOrAreLoweredAlready) {
  EXPECT_THAT(refusal_of([] { lower(parse_csv("0F0\n"), Sends::kBuffered); }),
              HasSubstr("is missing"));
  EXPECT_THAT(refusal_of([] { lower(lower(two_stages(), Sends::kBuffered), Sends::kBuffered); }),
              HasSubstr("messages cannot be added"));
  // Sent in one order and needed in another: one tag for both would swap them.
  EXPECT_THAT(
      refusal_of([] { lower(parse_csv("0F0,0F1,0B0,0B1\n1F1,1F0,1B0,1B1\n"), Sends::kBuffered); }),
      HasSubstr("is received in another order than it is sent"));
}

}  // namespace
}  // namespace muster::pipeline
