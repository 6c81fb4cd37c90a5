#include "muster/pipeline/partition/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace muster::pipeline {
namespace {

using test::refusal_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Twelve equal blocks: of a second's forward for the whole batch, and some time for each call.
BlocksFor blocks(double per_call_s) {
  return [=](int64_t micro_batches) {
    const double part = 1. / static_cast<double>(micro_batches);
    return std::vector<BlockCosts>(12,
                                   {.forward_s = part + per_call_s,
                                    .backward_s = 2 * part + per_call_s,
                                    .input_s = part + per_call_s,
                                    .weight_s = part + per_call_s,
                                    .activation_bytes = part});
  };
}

TEST(PipelinePlanChoice, TakesMoreMicroBatchesUntilCallsCostMore) {
  const PlanChoices choices{.ranks = 4, .schedules = {"1f1b"}, .micro_batches = {4, 8, 16, 32, 64}};
  EXPECT_EQ(choose_plan(blocks(0), choices)->sizes.micro_batches, 64);
  // (M + 3)(9 / M + 6 c) is least at M = sqrt(4.5 / c): 15 with c = 0.02.
  EXPECT_EQ(choose_plan(blocks(.02), choices)->sizes.micro_batches, 16);
}

TEST(PipelinePlanChoice, TakesTheScheduleWithTheSmallestBubble) {
  const PlanChoices choices{.ranks = 2,
                            .schedules = {"gpipe", "1f1b", "interleaved", "zb1p", "zbv"},
                            .micro_batches = {8}};
  const auto plan = choose_plan(blocks(0), choices);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->schedule, "zbv");
  EXPECT_EQ(plan->sizes.stages, 4);
  EXPECT_THAT(plan->partition.first_block, ElementsAre(0, 3, 6, 9));
  EXPECT_NEAR(plan->idle_s, 0, 1e-9);
}

TEST(PipelinePlanChoice, TakesTheOneThatFits) {
  // GPipe holds eight micro-batches' activations, 1F1B two and one: 12/2 blocks of 1/8 byte each.
  const PlanChoices choices{.ranks = 2, .schedules = {"gpipe", "1f1b"}, .micro_batches = {8}};
  EXPECT_EQ(choose_plan(blocks(0), choices)->schedule, "gpipe");  // the first of equals
  EXPECT_EQ(choose_plan(blocks(0), choices, {.memory_bytes = {1.6, 1.6}})->schedule, "1f1b");
  EXPECT_FALSE(choose_plan(blocks(0), choices, {.memory_bytes = {.5, .5}}));
}

TEST(PipelinePlanChoice, SaysWhyNothingCanBeMade) {
  EXPECT_THAT(refusal_of([] {
                choose_plan(blocks(0), {.ranks = 16, .schedules = {"1f1b"}, .micro_batches = {4}});
              }),
              HasSubstr("12 blocks are too few for 16 stages"));
  EXPECT_THAT(refusal_of([] {
                choose_plan(blocks(0), {.ranks = 2, .schedules = {"fast"}, .micro_batches = {4}});
              }),
              HasSubstr("unknown pipeline schedule"));
  EXPECT_THAT(refusal_of([] { choose_plan(blocks(0), {.ranks = 2}); }), HasSubstr("no schedules"));
}

TEST(PipelinePlanChoice, ExplainsStagesTimesAndTheBubble) {
  const auto plan =
      choose_plan(blocks(0), {.ranks = 2, .schedules = {"1f1b"}, .micro_batches = {8}});
  const std::string text = explain(*plan, 12);
  // (8 + 1) times 6 blocks of 3/8 s; the bubble is 1/9.
  EXPECT_THAT(text,
              HasSubstr("1f1b, 2 stages on 2 ranks, 8 micro-batches: step 20.2s, bubble 11.1 %"));
  EXPECT_THAT(text, HasSubstr("0-5"));
  EXPECT_THAT(text, HasSubstr("6-11"));
  EXPECT_THAT(text, HasSubstr("bytes by rank: 1 B, 0 B"));
  const std::vector<StageTimes> measured = {{.forward_s = .8}, {.forward_s = .7}};
  EXPECT_THAT(explain(*plan, 12, measured, 120), HasSubstr("measured_f_ms"));
}

// As the search has it, where the split is the one that it finds.
TEST(PipelinePlanChoice, PlansASplitThatIsThere) {
  for (const char* schedule : {"1f1b", "zb1p"}) {
    const auto found =
        choose_plan(blocks(.02), {.ranks = 3, .schedules = {schedule}, .micro_batches = {8}});
    const PipelinePlan plan =
        plan_of(schedule, found->sizes, blocks(.02)(8), found->partition.first_block);
    EXPECT_EQ(plan.partition.first_block, found->partition.first_block);
    EXPECT_EQ(plan.partition.step_s, found->partition.step_s);
    EXPECT_EQ(plan.partition.rank_bytes, found->partition.rank_bytes);
    EXPECT_EQ(plan.bubble, found->bubble);
    EXPECT_EQ(plan.stages[1].backward_s, found->stages[1].backward_s);
    EXPECT_TRUE(plan.partition.is_best);
  }
  // Uneven: eleven blocks of 3/8 s on the first rank, which never waits for the other one.
  const PipelinePlan uneven = plan_of("1f1b", {2, 2, 8}, blocks(0)(8), {0, 11});
  EXPECT_NEAR(uneven.partition.step_s, 8 * 11 * 3. / 8, 1e-9);
}

TEST(PipelinePlanChoice, CountsOneAsOne) {
  const auto plan =
      choose_plan(blocks(0), {.ranks = 1, .schedules = {"1f1b"}, .micro_batches = {1}});
  EXPECT_THAT(explain(*plan, 12), HasSubstr("1f1b, 1 stage on 1 rank, 1 micro-batch: step"));
}

}  // namespace
}  // namespace muster::pipeline
