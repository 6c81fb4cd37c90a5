#include "muster/pipeline/action/action.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/pipeline/action/action_lists.h"

#include "tests/support/error_of.h"

namespace muster::pipeline {
namespace {

using test::refusal_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<Action> of_every_kind() {
  std::vector<Action> out;
  for (int kind = 0; kind < kActionKinds; ++kind) {
    const auto k = static_cast<ActionKind>(kind);
    out.push_back({k, 12, k == ActionKind::kAverageGradients ? -1 : 34});
  }
  return out;
}

TEST(PipelineAction, IsWrittenAsPyTorchWritesIt) {
  std::vector<std::string> texts;
  for (const Action& action : of_every_kind()) texts.push_back(to_text(action));
  EXPECT_THAT(texts,
              ElementsAre("12F34",
                          "12B34",
                          "12I34",
                          "12W34",
                          "12SEND_F34",
                          "12RECV_F34",
                          "12SEND_B34",
                          "12RECV_B34",
                          "12REDUCE_GRAD"));
}

TEST(PipelineAction, ReadsBackWhatItWrites) {
  for (const Action& action : of_every_kind()) EXPECT_EQ(parse_action(to_text(action)), action);
}

TEST(PipelineAction, RefusesWhatIsNone) {
  for (const char* text : {"",
                           "F",
                           "2F",
                           "F0",
                           "20",
                           "2X0",
                           "2f0",
                           "2F-1",
                           "-2F1",
                           "2F0 ",
                           "2 F0",
                           "2REDUCE_GRAD0",
                           "2SEND_0",
                           "2F99999999999999999999",
                           "9999999F0",
                           "2FF0",
                           "2F0F"}) {
    EXPECT_THAT(refusal_of([&] { parse_action(text); }), HasSubstr(text)) << text;
  }
}

TEST(PipelineAction, DescribesItselfInWords) {
  EXPECT_EQ(describe({ActionKind::kForward, 2, 5}), "forward of stage 2, micro-batch 5 (2F5)");
  EXPECT_EQ(describe({ActionKind::kAverageGradients, 1, -1}),
            "averaging of the gradients of stage 1 (1REDUCE_GRAD)");
}

TEST(PipelineAction, APartnersPartnerIsTheMessageItself) {
  for (const Action& action : of_every_kind()) {
    if (!is_message(action.kind)) continue;
    EXPECT_EQ(partner_of(partner_of(action)), action);
    EXPECT_NE(is_send(partner_of(action).kind), is_send(action.kind));
  }
  EXPECT_EQ(to_text(partner_of(parse_action("2SEND_F0"))), "3RECV_F0");
  EXPECT_EQ(to_text(partner_of(parse_action("2SEND_B0"))), "1RECV_B0");
}

TEST(PipelinePlacement, LoopsOrGoesThereAndBack) {
  const Placement looped = Placement::looped(6, 3), v = Placement::v_shaped(3);
  EXPECT_THAT(looped.stages_of(1), ElementsAre(1, 4));
  EXPECT_THAT(v.stages_of(1), ElementsAre(1, 4));
  EXPECT_THAT(v.stages_of(0), ElementsAre(0, 5));
  EXPECT_TRUE(looped.crosses_after(2));
  EXPECT_FALSE(v.crosses_after(2));  // both on rank 2
  EXPECT_FALSE(v.crosses_after(5));  // the last
}

TEST(PipelinePlacement, RefusesRanksWithoutStages) {
  EXPECT_THAT(refusal_of([] { Placement::looped(2, 3); }), HasSubstr("2 stages, 3 ranks"));
  EXPECT_THAT(refusal_of([] { Placement({0, 2, 0}); }), HasSubstr("rank 1 has no stage"));
  EXPECT_THAT(refusal_of([] { Placement({0, -1}); }), HasSubstr("got -1"));
  EXPECT_THAT(refusal_of([] { Placement(std::vector<int64_t>{}); }), HasSubstr("0 ranks"));
}

TEST(PipelineLists, AreReadFromPyTorchsFile) {
  const ActionLists lists = parse_csv("0F0,0F1,,0B0,0B1,0REDUCE_GRAD\r\n,1F0,1B0,1F1, 1B1\n");
  EXPECT_EQ(lists.placement, Placement::looped(2, 2));
  EXPECT_EQ(lists.micro_batches, 2);
  EXPECT_EQ(to_csv(lists), "0F0,0F1,0B0,0B1,0REDUCE_GRAD\n1F0,1B0,1F1,1B1\n");
  EXPECT_EQ(parse_csv(to_csv(lists)), lists);
}

TEST(PipelineLists, AreRefusedWhereStagesHaveNoPlace) {
  EXPECT_THAT(refusal_of([] { parse_csv("0F0\n0B0\n"); }), HasSubstr("stage 0 is on two ranks"));
  EXPECT_THAT(refusal_of([] { parse_csv("0F0\n2F0\n"); }), HasSubstr("stage 1 is on no rank"));
  EXPECT_THAT(refusal_of([] { parse_csv("0F0\n,,\n"); }), HasSubstr("rank 1"));
  EXPECT_THAT(refusal_of([] { parse_csv("\n"); }), HasSubstr("0 ranks"));
}

TEST(PipelineLists, HoldActivationsFromForwardToTheEndOfBackward) {
  const ActionLists lists =
      parse_csv("0F0,0F1,0I0,0F2,0W0,0I1,0W1,0I2,0W2\n1F0,1B0,1F1,1F2,1B1,1B2");
  EXPECT_THAT(peak_in_flight(lists), ElementsAre(3, 2));
  // What W needs is a quarter: 1 + 1, then 1 + 1/4 + 1.
  const std::vector<StageBytes> bytes = {{.activation = 1, .kept = .25},
                                         {.activation = 8, .kept = 2}};
  EXPECT_THAT(peak_bytes(lists, bytes), ElementsAre(2.25, 16));
}

}  // namespace
}  // namespace muster::pipeline
