#include "muster/pipeline/order/letters_taken.h"

#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/text.h"
#include "muster/pipeline/order/lower.h"
#include "muster/pipeline/schedule/schedule.h"
#include "muster/pipeline/simulate/simulator.h"

namespace muster::pipeline {
namespace {

using ::testing::ElementsAre;

TEST(SurelyTaken, ByWhatComesBack) {
  const ActionLists lists =
      lower(parse_csv("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"), Sends::kBuffered);
  // 0F0 SEND 0F1 SEND RECV_B0 0B0 RECV_B1 0B1: a gradient says that its activation was taken.
  EXPECT_THAT(surely_taken(lists, 0), ElementsAre(-1, 5, -1, 7, -1, -1, -1, -1));
  // RECV_F0 1F0 1B0 SEND_B0 RECV_F1 1F1 1B1 SEND_B1: what rank 0 sends was made before it took any.
  EXPECT_THAT(surely_taken(lists, 1), ElementsAre(-1, -1, -1, 8, -1, -1, -1, 8));
}

TEST(SurelyTaken, AlsoByWayOfAThirdRank) {
  // Rank 2 hears from rank 0 alone, whose message was made behind rank 1's that took rank 2's first.
  const ActionLists lists = parse_csv(
      "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1SEND_F0,1RECV_B0,1B0,1SEND_B0\n2RECV_F0,2F0,2B0,"
      "2SEND_B0\n");
  EXPECT_THAT(surely_taken(lists, 0), ElementsAre(-1, 3, -1, -1));
  EXPECT_THAT(surely_taken(lists, 1), ElementsAre(-1, -1, 4, -1, -1, 6));
  const ActionLists four =
      lower(parse_csv("0F0,0B0,0F1,0B1\n1F0,1B0,1F1,1B1\n2F0,2B0,2F1,2B1\n"), Sends::kBuffered);
  // 2RECV_F0 2F0 2B0 2SEND_B0 2RECV_F1: that was made behind 0B0, behind 1B0, which took it.
  EXPECT_EQ(surely_taken(four, 2)[3], 5);
}

// In any step, whatever actions take, a message has been received when the position is reached; and not
// always when the one before it is.
TEST(SurelyTaken, HoldsInEverySimulatedStepOfEverySchedule) {
  std::mt19937 draws(1);
  std::exponential_distribution<double> time(1);
  for (const std::string schedule : {"gpipe", "1f1b", "1f1b:eager=true", "interleaved", "zb1p"}) {
    for (const int64_t ranks : {2, 4}) {
      SCOPED_TRACE(concat(schedule, ", ", ranks, " ranks"));
      const int64_t stages = schedule == "interleaved" ? 2 * ranks : ranks;
      const ActionLists lists =
          lower(make_schedule(schedule, {stages, ranks, 8}).lists, Sends::kBuffered);
      for (int round = 0; round < 20; ++round) {
        std::vector<StageTimes> times;
        for (int64_t stage = 0; stage < stages; ++stage)
          times.push_back({.forward_s = time(draws),
                           .backward_s = time(draws),
                           .input_s = time(draws),
                           .weight_s = time(draws)});
        const Timeline timeline = Simulator(lists).run(times);
        for (int64_t rank = 0; rank < ranks; ++rank) {
          const auto& spans = timeline.ranks[static_cast<size_t>(rank)];
          const auto taken = surely_taken(lists, rank);
          for (size_t i = 0; i < spans.size(); ++i) {
            if (!is_send(spans[i].action.kind)) {
              EXPECT_EQ(taken[i], -1);
              continue;
            }
            ASSERT_GT(taken[i], static_cast<int64_t>(i));
            if (taken[i] == std::ssize(spans)) continue;
            const Action receive = partner_of(spans[i].action);
            const auto& theirs =
                timeline.ranks[static_cast<size_t>(lists.placement.rank_of(receive.stage))];
            const auto there = std::ranges::find(theirs, receive, &Span::action);
            EXPECT_LE(there->start_s, spans[static_cast<size_t>(taken[i])].start_s)
                << to_text(spans[i].action);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace muster::pipeline
