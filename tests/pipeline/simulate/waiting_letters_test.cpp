// Letters that wait: by hand, and against a count of every moment.
#include "muster/pipeline/simulate/waiting_letters.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/text.h"
#include "muster/pipeline/order/lower.h"
#include "muster/pipeline/partition/blocks.h"
#include "muster/pipeline/schedule/schedule.h"
#include "muster/pipeline/simulate/simulator.h"

namespace muster::pipeline {
namespace {

using ::testing::ElementsAre;

std::vector<double> peaks_of(const std::string& csv,
                             const std::vector<StageTimes>& times,
                             const std::vector<StageBytes>& bytes) {
  const ActionLists lists = parse_csv(csv);
  return peak_bytes(lists, bytes, Simulator(lists).run(times));
}

TEST(WaitingLetters, AGradientWaitsUntilTheStageBeforeIsFree) {
  // 0F0 0-3, 0F1 -6, 0F2 -9; 1F0 3-4, 1B0 4-5, 1F1 6-7. 0B0 begins at 9: 1B0's gradient is there
  // beside 1F1's activation.
  EXPECT_THAT(peaks_of("0F0,0F1,0F2,0B0,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n",
                       {{.forward_s = 3, .backward_s = 1}, {.forward_s = 1, .backward_s = 1}},
                       {{.activation = 10}, {.activation = 10, .gradient = 1}}),
              ElementsAre(30, 11));
  // 1B0 3-4, 1B1 4-5, 1F2 5-6, 1B2 6-7; 0B0 takes the first at 4, 0B1 the second at 54, 0B2 the third.
  EXPECT_THAT(peaks_of("0F0,0F1,0F2,0B0,0B1,0B2\n1F0,1F1,1B0,1B1,1F2,1B2\n",
                       {{.forward_s = 1, .backward_s = 50}, {.forward_s = 1, .backward_s = 1}},
                       {{.activation = 10}, {.activation = 1, .gradient = 10}}),
              ElementsAre(30, 20));
}

TEST(WaitingLetters, BetweenStagesOfOneRankAGradientWaitsByTheList) {
  const std::vector<StageTimes> none(2, {.forward_s = 0, .backward_s = 0});
  // Both backwards of stage 1 come first: two gradients lie there while 0B0 begins, less its own.
  EXPECT_THAT(peaks_of("0F0,1F0,0F1,1F1,1B0,1B1,0B0,0B1\n",
                       none,
                       {{.activation = 1, .work = 7}, {.activation = 1, .gradient = 4}}),
              ElementsAre(13));  // 0B0: two activations, 7 at work, the other gradient
}

/// Letters between ranks at every begin of an action, counted from the timeline in another way.
double most_by_definition(const ActionLists& lists,
                          const std::vector<StageBytes>& bytes,
                          const Timeline& timeline,
                          size_t rank) {
  const auto& mine = timeline.ranks[rank];
  double most = 0;
  for (size_t now = 0; now < mine.size(); ++now) {
    double sum = 0;
    for (size_t i = 0; i <= now; ++i) {
      const Action& action = mine[i].action;
      const StageBytes& of = bytes[static_cast<size_t>(action.stage)];
      const auto is_over = [&](ActionKind kind) {
        return std::any_of(mine.begin(), mine.begin() + static_cast<int64_t>(now), [&](auto& span) {
          return span.action == Action{kind, action.stage, action.micro_batch};
        });
      };
      if (action.kind == ActionKind::kForward && !is_over(ActionKind::kBackward))
        sum += of.activation;
      if (action.kind != ActionKind::kBackward || i == now || action.stage == 0) continue;
      const auto& theirs =
          timeline.ranks[static_cast<size_t>(lists.placement.rank_of(action.stage - 1))];
      const auto use =
          std::ranges::find(theirs,
                            Action{ActionKind::kBackward, action.stage - 1, action.micro_batch},
                            &Span::action);
      if (use->start_s > mine[now].start_s) sum += of.gradient;
    }
    most = std::max(most, sum);
  }
  return most;
}

TEST(WaitingLetters, AreCountedAsByDefinitionInEverySchedule) {
  for (const std::string schedule : {"gpipe", "1f1b", "1f1b:eager=true", "interleaved"}) {
    for (const int64_t ranks : {2, 4}) {
      for (const int64_t micro_batches : {2, 4, 8}) {
        SCOPED_TRACE(concat(schedule, ", ", ranks, " ranks, ", micro_batches));
        const int64_t stages = schedule == "interleaved" ? 2 * ranks : ranks;
        const ActionLists lists = make_schedule(schedule, {stages, ranks, micro_batches}).lists;
        std::vector<StageTimes> times;
        std::vector<StageBytes> bytes;
        for (int64_t stage = 0; stage < stages; ++stage) {
          const auto uneven = static_cast<double>(1 + (stage * 5) % 3);
          times.push_back({.forward_s = uneven, .backward_s = 3.25 - uneven});
          bytes.push_back({.activation = 4 + uneven, .gradient = 2 * uneven});
        }
        const Timeline timeline = Simulator(lists).run(times);
        const auto peaks = peak_bytes(lists, bytes, timeline);
        const auto without = peak_bytes(lists, bytes);
        for (size_t rank = 0; rank < peaks.size(); ++rank) {
          EXPECT_DOUBLE_EQ(peaks[rank], most_by_definition(lists, bytes, timeline, rank));
          EXPECT_GE(peaks[rank], without[rank]);
        }
      }
    }
  }
}

// A stage's letter is what crosses its ends, and the gradient that came in stays while its blocks
// run backward.
TEST(WaitingLetters, AreThoseOfTheBlocksAtAStagesEnds) {
  const BlockSums sums(std::vector<BlockCosts>{{.work_bytes = 10, .gradient_bytes = 2},
                                               {.work_bytes = 20, .gradient_bytes = 4},
                                               {.work_bytes = 19, .gradient_bytes = 6},
                                               {.work_bytes = 1}});
  const StageBytes middle = sums.bytes(1, 3);
  EXPECT_EQ(middle.gradient, 2);
  EXPECT_EQ(middle.work, 26);
  const StageBytes last = sums.bytes(3, 4);
  EXPECT_EQ(last.gradient, 6);
  EXPECT_EQ(last.work, 1);
  EXPECT_EQ(sums.bytes(0, 1).gradient, 0);
}

// Two stages of one rank hold what lies between them once: ZBV's at its turn.
TEST(WaitingLetters, WhatTwoStagesOfOneRankHoldIsCountedOnce) {
  const BlockSums sums(std::vector<BlockCosts>{{.activation_bytes = 1, .handed_bytes = 1},
                                               {.activation_bytes = 10, .handed_bytes = 4},
                                               {.activation_bytes = 10, .handed_bytes = 2},
                                               {.activation_bytes = 1}});
  EXPECT_EQ(sums.bytes(2, 3, {.shares_input = true}).activation, 6);
  EXPECT_EQ(sums.bytes(0, 1, {.shares_input = true}).activation, 1);
  const ActionLists lists =
      make_schedule("zbv", {.stages = 4, .ranks = 2, .micro_batches = 1}).lists;
  EXPECT_THAT(rank_bytes(sums, {0, 1, 2, 3}, lists), ElementsAre(2, 16));
}

// The gradients of I come one by one: where the loss takes most, those of the blocks before are not
// there yet.
TEST(StageBytes, TheBackwardOfTheInputTakesMostWhereWorkAndGradientsTogetherAreMost) {
  const std::vector<BlockCosts> blocks{{.caught_bytes = 1, .work_bytes = 1},
                                       {.caught_bytes = 4, .work_bytes = 2},
                                       {.caught_bytes = 1, .work_bytes = 9}};
  const StageBytes stage = BlockSums(blocks).bytes(0, 3);
  EXPECT_EQ(stage.caught, 6);
  EXPECT_EQ(stage.work, 9);
  EXPECT_EQ(stage.input_rise, 10);  // 9 + 1 at the last block, 2 + 5, 1 + 6
  // 0F0, 0I0: an activation of 0, and that.
  EXPECT_THAT(peaks_of("0F0,0I0,0W0\n",
                       {{}},
                       {{.activation = 0, .kept = 0, .caught = 6, .work = 9, .input_rise = 10}}),
              ElementsAre(15));  // at W: what was caught, and its work
}

// See Note [The first stage].
TEST(StageBytes, TheFirstStageOfASplitBackwardHoldsTheOutputOfItsFirstBlock) {
  const auto activation = [](double output, double input, bool splits) {
    const BlockSums sums(
        std::vector<BlockCosts>{{.activation_bytes = 5, .output_bytes = output, .handed_bytes = 3},
                                {.activation_bytes = 7, .input_bytes = input},
                                {.activation_bytes = 1}});
    return sums.bytes(0, 2, {.splits_backward = splits}).activation;
  };
  EXPECT_EQ(activation(3, 3, true), 15);
  EXPECT_EQ(activation(3, 3, false), 12);
  EXPECT_EQ(activation(0, 3, true), 12);  // the first block keeps it
  EXPECT_EQ(activation(3, 0, true), 12);  // the second one does
}

}  // namespace
}  // namespace muster::pipeline
