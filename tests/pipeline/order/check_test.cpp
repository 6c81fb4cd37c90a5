#include "muster/pipeline/order/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/pipeline/order/lower.h"
#include "muster/pipeline/schedule/schedule.h"

#include "tests/support/error_of.h"

namespace muster::pipeline {
namespace {

using ::testing::HasSubstr;

std::string fault_of(const ActionLists& lists, const CheckOptions& options = {}) {
  const auto fault = find_fault(lists, options);
  return fault ? fault->text() : "none";
}

/// Two ranks of a stage each; the placement and the number of micro-batches stay 2.
std::string fault_of(const std::string& csv, const CheckOptions& options = {}) {
  ActionLists lists{Placement::looped(2, 2), 2, {}};
  for (const std::string& line : split(csv, '\n')) {
    auto& actions = lists.ranks.emplace_back();
    for (const std::string& cell : split(line, ' ')) actions.push_back(parse_action(cell));
  }
  return fault_of(lists, options);
}

TEST(PipelineCheck, AcceptsWhatCanRun) {
  EXPECT_EQ(fault_of("0F0 0F1 0B0 0B1\n1F0 1B0 1F1 1B1"), "none");
  EXPECT_EQ(fault_of("0F0 0F1 0I0 0W0 0I1 0W1\n1F0 1B0 1F1 1I1 1W1"), "none");
  EXPECT_EQ(fault_of("0F0 0F1 0B1 0B0 0REDUCE_GRAD\n1F1 1B1 1F0 1B0 1REDUCE_GRAD"), "none");
}

TEST(PipelineCheck, NamesRankStageMicroBatchAndAction) {
  EXPECT_EQ(fault_of("0F0 0F1 0B0 0B1\n1F0 1B0 1F1 1F0 1B1"),
            "rank 1, action 3: forward of stage 1, micro-batch 0 (1F0) comes twice");
  EXPECT_EQ(fault_of("0F0 0F1 0B0 0B1\n1F0 1B0 1F1"),
            "rank 1: backward of stage 1, micro-batch 1 (1B1) is missing");
}

TEST(PipelineCheck, RefusesWhatIsMissingOrTooMuch) {
  EXPECT_THAT(fault_of("0F0 0F1 0B0 0B1\n1F0 1B0 1F1 1I1"), HasSubstr("(1W1) is missing"));
  EXPECT_THAT(fault_of("0F0 0B0\n1F0 1B0"), HasSubstr("(0F1) is missing"));
  EXPECT_THAT(fault_of("0F0\n1F0"), HasSubstr("2 actions are too few"));
  EXPECT_THAT(fault_of("0F0 0F1 0B0 0B1 0B0\n1F0 1B0 1F1 1B1"), HasSubstr("(0B0) comes twice"));
  EXPECT_THAT(
      fault_of("0F0 0F1 0B0 0I0 0W0 0B1\n1F0 1B0 1F1 1B1"),
      HasSubstr("action 3: backward of the input of stage 0, micro-batch 0 (0I0) is a second "
                "backward"));
  EXPECT_THAT(fault_of("0F0 0F1 0I0 0B0 0W0 0B1\n1F0 1B0 1F1 1B1"),
              HasSubstr("is a second backward"));
  EXPECT_THAT(fault_of("0F0 0F1 0B0 0B1 0REDUCE_GRAD\n1F0 1B0 1F1 1B1"),
              HasSubstr("stage 1 (1REDUCE_GRAD) is missing"));
}

TEST(PipelineCheck, RefusesAWrongOrderWithinARank) {
  EXPECT_THAT(fault_of("0B0 0F0 0F1 0B1\n1F0 1B0 1F1 1B1"), HasSubstr("comes before its forward"));
  EXPECT_THAT(fault_of("0F0 0F1 0W0 0I0 0B1\n1F0 1B0 1F1 1B1"),
              HasSubstr("comes before the backward of the input"));
  EXPECT_THAT(fault_of("0F0 0F1 0B0 0REDUCE_GRAD 0B1\n1F0 1B0 1F1 1B1 1REDUCE_GRAD"),
              HasSubstr("comes before the stage's last backward"));
}

TEST(PipelineCheck, RefusesWhatIsNotThere) {
  EXPECT_THAT(fault_of("0F0 0F1 0B0 0B1 1F0\n1F0 1B0 1F1 1B1"),
              HasSubstr("is not this rank's: the stage is on rank 1"));
  EXPECT_THAT(fault_of("0F0 0F1 0B0 0B1 2F0\n1F0 1B0 1F1 1B1"),
              HasSubstr("has a stage that is none"));
  EXPECT_THAT(fault_of("0F0 0F1 0B0 0B1 0F2\n1F0 1B0 1F1 1B1"),
              HasSubstr("has a micro-batch that is none"));
  EXPECT_THAT(fault_of("0F0 0F1 0B0 0B1 1F0 1B0 1F1 1B1"), HasSubstr("1 lists for 2 ranks"));
}

TEST(PipelineCheck, RefusesACircleAndNamesIt) {
  EXPECT_EQ(
      fault_of("0F0 0B0 0F1 0B1\n1F1 1B1 1F0 1B0"),
      "rank 0, action 1: backward of stage 0, micro-batch 0 (0B0) never runs: ranks wait in a "
      "circle: rank 0 at 0B0 for 1B0 of rank 1, rank 1 at 1F1 for 0F1 of rank 0");
  // Two stages of one rank in the wrong order.
  EXPECT_THAT(
      fault_of(parse_csv("1F0,0F0,1B0,0B0\n")),
      HasSubstr("rank 0, action 0: forward of stage 1, micro-batch 0 (1F0) never runs: ranks wait "
                "in a circle: rank 0 at 1F0 for 0F0 of rank 0"));
}

TEST(PipelineCheck, RefusesMoreActivationsThanAllowed) {
  const std::string gpipe = "0F0 0F1 0B0 0B1\n1F0 1F1 1B0 1B1";
  EXPECT_EQ(fault_of(gpipe, {.in_flight = {2, 2}}), "none");
  EXPECT_EQ(
      fault_of(gpipe, {.in_flight = {2, 1}}),
      "rank 1, action 1: forward of stage 1, micro-batch 1 (1F1) is one activation too many: the "
      "rank may hold 1");
}

TEST(PipelineCheck, MessagesStandBetweenWhatMakesAndWhatNeedsThem) {
  const std::string second = "\n1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1";
  const std::string first = "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1";
  EXPECT_EQ(fault_of(first + second), "none");
  EXPECT_THAT(fault_of("0F0 0SEND_F0 0F1 0SEND_F1 0B0 0RECV_B0 0RECV_B1 0B1" + second),
              HasSubstr("(0B0) comes before its gradient is received"));
  EXPECT_THAT(fault_of("0SEND_F0 0F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1" + second),
              HasSubstr("comes before the forward that makes it"));
  EXPECT_THAT(
      fault_of("0F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1" + second),
      HasSubstr(
          "rank 0: sending of the activation of stage 0, micro-batch 0 (0SEND_F0) is missing"));
  EXPECT_THAT(
      fault_of("0F0 0F1 0SEND_F1 0SEND_F0 0RECV_B0 0B0 0RECV_B1 0B1" + second),
      HasSubstr(
          "rank 1, action 0: receiving of the activation of stage 1, micro-batch 0 (1RECV_F0) is "
          "received in another order than it is sent: next comes 0SEND_F1"));
  EXPECT_THAT(fault_of(first + " 0SEND_B0" + second), HasSubstr("goes nowhere"));
}

// Both ranks send before they receive: with a buffer between them that is fine.
TEST(PipelineCheck, SendsThatWaitForTheirReceiverCanStopBothRanks) {
  const std::string csv =
      "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1\n"
      "1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1";
  EXPECT_EQ(fault_of(csv, {.sends = Sends::kBuffered}), "none");
  const std::string fault = fault_of(csv, {.sends = Sends::kRendezvous});
  EXPECT_THAT(fault, HasSubstr("a send waits for its receiver"));
  EXPECT_THAT(fault, HasSubstr("rank 1 at 1SEND_B0 for "));
}

/// Every list with one action less, one more, or two neighbours swapped.
std::vector<ActionLists> mutants(const ActionLists& lists) {
  std::vector<ActionLists> out;
  for (size_t rank = 0; rank < lists.ranks.size(); ++rank) {
    for (size_t i = 0; i < lists.ranks[rank].size(); ++i) {
      const auto at = static_cast<std::ptrdiff_t>(i);
      auto& dropped = out.emplace_back(lists).ranks[rank];
      dropped.erase(dropped.begin() + at);
      auto& doubled = out.emplace_back(lists).ranks[rank];
      doubled.insert(doubled.begin() + at, doubled[i]);
      auto& moved = out.emplace_back(lists).ranks[(rank + 1) % lists.ranks.size()];
      moved.push_back(lists.ranks[rank][i]);
    }
  }
  return out;
}

TEST(PipelineCheck, RefusesEveryScheduleWithAnActionDroppedDoubledOrOnAnotherRank) {
  for (const ScheduleEntry* entry : schedules()) {
    const PipelineSizes sizes{3 * entry->stages_per_rank, 3, 6};
    const ActionLists compute = entry->make(sizes, {}).lists;
    for (const ActionLists& lists : {with_averages(compute),
                                     lower(compute, Sends::kBuffered),
                                     lower(compute, Sends::kRendezvous)}) {
      for (const ActionLists& mutant : mutants(lists))
        EXPECT_NE(fault_of(mutant), "none") << to_csv(mutant);
    }
  }
}

/// A pair that must keep its order, by the definitions in Note [Pipeline actions] alone.
bool depends(const Action& first, const Action& second) {
  using enum ActionKind;
  if (second.kind == kAverageGradients) return first.stage == second.stage;
  if (first.kind == kAverageGradients || first.micro_batch != second.micro_batch) return false;
  const auto one_of = [](ActionKind kind, std::initializer_list<ActionKind> kinds) {
    return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
  };
  const auto backward = {kBackward, kBackwardInput};
  if (first.stage == second.stage) {
    return (first.kind == kForward &&
            one_of(second.kind, {kBackward, kBackwardInput, kSendActivation})) ||
           (first.kind == kBackwardInput && second.kind == kBackwardWeight) ||
           (first.kind == kReceiveActivation && second.kind == kForward) ||
           (first.kind == kReceiveGradient && one_of(second.kind, backward)) ||
           (one_of(first.kind, backward) && second.kind == kSendGradient);
  }
  if (first.kind == kForward && second.kind == kForward) return second.stage == first.stage + 1;
  return one_of(first.kind, backward) && one_of(second.kind, backward) &&
         second.stage == first.stage - 1;
}

/// Messages of one boundary in one direction keep their order, too.
bool same_tag(const Action& first, const Action& second) {
  return is_message(first.kind) && first.kind == second.kind && first.stage == second.stage;
}

TEST(PipelineCheck, RefusesNeighboursThatAreSwappedWhereOneNeedsTheOther) {
  int64_t refused = 0, accepted = 0;
  for (const ScheduleEntry* entry : schedules()) {
    const ActionLists compute = entry->make({3 * entry->stages_per_rank, 3, 5}, {}).lists;
    for (const ActionLists& lists :
         {compute, with_averages(compute), lower(compute, Sends::kBuffered)}) {
      for (size_t rank = 0; rank < lists.ranks.size(); ++rank) {
        for (size_t i = 0; i + 1 < lists.ranks[rank].size(); ++i) {
          ActionLists mutant = lists;
          auto& actions = mutant.ranks[rank];
          const bool must_stay =
              depends(actions[i], actions[i + 1]) || same_tag(actions[i], actions[i + 1]);
          std::swap(actions[i], actions[i + 1]);
          const std::string fault = fault_of(mutant);
          if (must_stay) {
            EXPECT_NE(fault, "none") << to_csv(mutant);
            ++refused;
          } else if (fault == "none") {
            ++accepted;
          } else {
            // Independent of each other, and yet refused: then some rank waits in a circle.
            EXPECT_THAT(fault, HasSubstr("circle"));
          }
        }
      }
    }
  }
  EXPECT_GT(refused, 200);
  EXPECT_GT(accepted, 200);
}

TEST(PipelineCheck, ThrowsTheFaultAsARefusal) {
  EXPECT_THAT(test::refusal_of([] { require_runnable(parse_csv("0F0,0F1,0B0\n")); }),
              HasSubstr("rank 0: backward of stage 0, micro-batch 1 (0B1) is missing"));
}

}  // namespace
}  // namespace muster::pipeline
