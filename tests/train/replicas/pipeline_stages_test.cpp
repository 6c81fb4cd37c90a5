// What a pipeline's stages take: predicted by formula, measured by sums, told in lines.
#include "muster/train/replicas/pipeline_stages.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/json.h"
#include "muster/train/replicas/pipeline_cut.h"

namespace muster::train::detail {
namespace {

using pipeline::ActionKind;
using pipeline::BlockCosts;
using pipeline::Span;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

pipeline::PipelinePlan plan_of_equal_blocks() {
  return pipeline::choose_plan(
             [](int64_t) {
               return std::vector<BlockCosts>(
                   4,
                   {.forward_s = 1, .backward_s = 2, .activation_bytes = 3, .parameter_bytes = 5});
             },
             {.ranks = 2, .schedules = {"1f1b"}, .micro_batches = {8}})
      .value();
}

// Two stages of two blocks each and eight micro-batches: a ninth of a step is bubble, on both ranks;
// the first holds two micro-batches, the second one.
TEST(PipelineStages, ArePredictedByThePlan) {
  const auto stages = predicted_stages(plan_of_equal_blocks());
  ASSERT_EQ(stages.size(), 2U);
  for (const StageAccount& stage : stages) {
    EXPECT_EQ(stage.forward_s, 2);
    EXPECT_EQ(stage.backward_s, 4);
    EXPECT_NEAR(stage.idle, 1. / 9, 1e-12);
  }
  EXPECT_EQ(stages[0].bytes, 2 * 2 * 3 + 2 * 5);
  EXPECT_EQ(stages[1].bytes, 2 * 3 + 2 * 5);
  EXPECT_EQ(stages_from(to_json(stages)), stages);
  EXPECT_THAT(stages_from(Json{{1, 2, 3}}), IsEmpty());
  EXPECT_THAT(stages_from(Json{{1, 2, 3, "x"}}), IsEmpty());
  EXPECT_THAT(stages_from(Json()), IsEmpty());
}

TEST(PipelineStages, AreMeasuredFromTheSecondStepOn) {
  const auto step = [](int64_t stage, double forward, double half) {
    return std::vector<Span>{{{ActionKind::kForward, stage, 0}, 0, forward},
                             {{ActionKind::kForward, stage, 1}, forward, 2 * forward},
                             {{ActionKind::kSendActivation, stage, 1}, 20, 30},
                             {{ActionKind::kBackwardInput, stage, 0}, 30, 30 + half},
                             {{ActionKind::kBackwardWeight, stage, 0}, 40, 40 + half},
                             {{ActionKind::kBackward, stage, 1}, 50, 50 + 2 * half}};
  };
  StageClock first, second, replica;
  first.add(step(0, 100, 100), 1000);
  EXPECT_TRUE(first.told().is_null());
  first.add(step(0, 1, 2), 20);
  first.add(step(0, 3, 4), 44);
  second.add(step(1, 9, 9), 100);
  second.add(step(1, 2, 1), 8);
  replica.add(step(1, 9, 9), 100);
  replica.add(step(1, 4, 3), 20);
  const auto text = [](const StageClock& clock) { return json_text(clock.told()); };
  const auto stages = StageClock::merged({text(first), text(second), text(replica)}, 2);
  ASSERT_EQ(stages.size(), 2U);
  EXPECT_EQ(stages[0].forward_s, 2);        // (1 + 1 + 3 + 3) / 4
  EXPECT_EQ(stages[0].backward_s, 6);       // 4 halves of 2 and of 4, four micro-batches
  EXPECT_EQ(stages[0].idle, 1 - 32. / 64);  // 2 + 8 and 6 + 16 of 64
  EXPECT_EQ(stages[1].forward_s, 3);
  EXPECT_EQ(stages[1].backward_s, 4);  // 2 and 6
  EXPECT_EQ(stages[1].idle, 0);        // both compute all the time
  EXPECT_THAT(StageClock::merged({text(first), "null"}, 2), IsEmpty());
}

// Of a device whose times are not known, and of replicas: the one that holds most.
TEST(PipelineStages, AreMeasuredInBytesWithoutTimes) {
  const auto held = [](int64_t stage, double bytes) {
    StageClock clock;
    clock.hold(std::vector<int64_t>{stage}, bytes);
    return json_text(clock.told());
  };
  EXPECT_EQ(held(0, 0), "null");
  const auto stages = StageClock::merged({held(0, 5), held(1, 3), held(1, 4)}, 2);
  EXPECT_THAT(stages, ElementsAre(StageAccount{0, 0, 0, 5}, StageAccount{0, 0, 0, 4}));
  EXPECT_THAT(StageClock::merged({held(0, 5), held(1, 0)}, 2), IsEmpty());
  std::vector<StageAccount> known{{1, 2, 0.5, 7}};
  take_measured({{0, 0, 0, 5}}, known);
  EXPECT_THAT(known, ElementsAre(StageAccount{1, 2, 0.5, 5}));
  take_measured({{3, 4, 0.25, 0}}, known);
  EXPECT_THAT(known, ElementsAre(StageAccount{3, 4, 0.25, 5}));
  take_measured({}, known);
  EXPECT_EQ(known.size(), 1U);
  EXPECT_THAT(
      stage_lines({{0.0012, 0.0024, 0.125, 3 << 20}}, {{0, 0, 0, 2 << 20}}),
      ElementsAre("stage 0: predicted forward 1.20 ms, backward 2.40 ms, idle 12.5 %, at most 3.0 "
                  "MiB; measured at most 2.0 MiB",
                  "bubble: predicted 12.5 %"));
}

TEST(PipelineStages, AreToldSideBySide) {
  const std::vector<StageAccount> predicted{{0.0012, 0.0024, 0.125, 3 << 20}};
  const std::vector<StageAccount> measured{{0.002, 0.004, 0.25, 0}};
  EXPECT_THAT(
      stage_lines(predicted, measured),
      ElementsAre("stage 0: predicted forward 1.20 ms, backward 2.40 ms, idle 12.5 %, at most 3.0 "
                  "MiB; measured forward 2.00 ms, backward 4.00 ms, idle 25.0 %",
                  "bubble: predicted 12.5 %; measured 25.0 %"));
  EXPECT_THAT(stage_lines({}, measured),
              ElementsAre("stage 0: measured forward 2.00 ms, backward 4.00 ms, idle 25.0 %",
                          "bubble: measured 25.0 %"));
  // Of the ranks' time, each of which has a stage.
  EXPECT_EQ(stage_lines({{1, 2, 0.5, 0}, {1, 2, 0.125, 0}}, {}).back(), "bubble: predicted 31.2 %");
  EXPECT_THAT(stage_lines({}, {}), IsEmpty());
}

// Of another cut, and of other units that run again, it says nothing.
TEST(PipelineStages, AreOfTheTreatmentOfTheirCut) {
  PipelineCut cut{.first_block = {0, 2}, .schedule = "1f1b", .micro_batches = 8};
  cut.checkpointed = {true, true, false, false};
  const std::vector<StageAccount> measured{{1, 2, 0.5, 0}, {3, 4, 0.25, 0}};
  const Json record = record_of(cut, 2, measured);
  EXPECT_EQ(measured_before(record, cut, 2), measured);
  PipelineCut plain = cut;
  plain.checkpointed = {};
  EXPECT_THAT(measured_before(record, plain, 2), IsEmpty());
  EXPECT_THAT(measured_before(record_of(plain, 2, measured), cut, 2), IsEmpty());
  PipelineCut none = plain;  // of all units and stages, that nothing is done
  none.checkpointed = {false, false, false, false};
  none.offloaded = {false, false};
  EXPECT_EQ(measured_before(record_of(plain, 2, measured), none, 2), measured);
}

TEST(PipelineCut, SaysWhetherItWasMeasuredOrGivenBefore) {
  PipelineCut cut{.first_block = {0, 2}, .schedule = "1f1b", .micro_batches = 6};
  EXPECT_EQ(choice_text(cut, {}), " (as it was measured before; the same again: split=0/2)");
  cut.was_given = true;
  EXPECT_EQ(choice_text(cut, {}), " (as it was given before; the same again: split=0/2)");
  EXPECT_EQ(choice_text(cut, {.split = "0/2"}), "");
}

TEST(PipelineCut, SaysHowManyMicroBatchesThereAreAndWhatHasNoRoom) {
  PipelineCut cut{.schedule = "1f1b", .micro_batches = 6, .asked_micro_batches = 6};
  EXPECT_EQ(schedule_text(cut), "1f1b of 6 micro-batches");
  cut.asked_micro_batches = 0;
  EXPECT_EQ(schedule_text(cut), "1f1b of 6 micro-batches");
  cut.asked_micro_batches = 100;
  cut.batch = 12;
  EXPECT_EQ(schedule_text(cut),
            "1f1b of 6 micro-batches (100 were asked for, of two samples at least: a batch has 12; "
            "take --batch-size 200, or micro_batches=6)");
  cut.micro_batches = cut.batch = 1;
  cut.asked_micro_batches = 4;
  cut.replicas = 2;
  EXPECT_EQ(
      schedule_text(cut),
      "1f1b of 1 micro-batch (4 were asked for, of two samples at least: a batch has 1 on each "
      "replica; take --batch-size 16, or micro_batches=1)");
  EXPECT_EQ(room_text(cut), "");
  cut.times_room = 1.88;
  EXPECT_EQ(room_text(cut),
            "; no cut fits into the memory that is free, less a twentieth: this one wants least, "
            "88 % more; --activation-checkpointing blocks may keep less");
  cut.rule = parallel::parse_block_rule("blocks", "");
  cut.checkpointed = {true, true};
  EXPECT_EQ(room_text(cut),
            "; no cut fits into the memory that is free, less a twentieth: this one wants least, "
            "88 % more");
  cut.rule = parallel::parse_block_rule("budget:1KiB", "");
  EXPECT_EQ(room_text(cut), "; it wants 88 % more than the memory that is free, less a twentieth");
}

TEST(PipelineStages, AreKeptInTheRecordOfTheirCut) {
  PipelineCut cut{.first_block = {0, 2}, .schedule = "1f1b", .micro_batches = 8};
  cut.predicted = predicted_stages(plan_of_equal_blocks());
  const std::vector<StageAccount> measured{{1, 2, 0.5, 0}, {3, 4, 0.25, 0}};
  const Json record = record_of(cut, 2, measured);
  EXPECT_EQ(lines_of_record(record), stage_lines(cut.predicted, measured));
  EXPECT_EQ(measured_before(record, cut, 2), measured);
  EXPECT_THAT(measured_before(record, cut, 3), IsEmpty());
  PipelineCut other = cut;
  other.first_block = {0, 1};
  EXPECT_THAT(measured_before(record, other, 2), IsEmpty());
  EXPECT_THAT(lines_of_record(Json()), IsEmpty());
  EXPECT_THAT(lines_of_record(record_of(PipelineCut{.first_block = {0}}, 1, {})), IsEmpty());
}

}  // namespace
}  // namespace muster::train::detail
