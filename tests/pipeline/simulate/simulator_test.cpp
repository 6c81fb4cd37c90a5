#include "muster/pipeline/simulate/simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/pipeline/order/lower.h"
#include "muster/pipeline/schedule/schedule.h"

#include "tests/support/error_of.h"

namespace muster::pipeline {
namespace {

using test::refusal_of;
using ::testing::HasSubstr;

constexpr double kClose = 1e-9;

Timeline timeline_of(const std::string& spec, const PipelineSizes& sizes, const StageTimes& times) {
  return Simulator(make_schedule(spec, sizes).lists).run(equal_stages(sizes.stages, times));
}

/// Over 2 to 8 ranks and 2 to 64 micro-batches.
template <class Check>
void for_ranks_and_micro_batches(Check&& check) {
  for (int64_t p = 2; p <= 8; ++p) {
    for (int64_t m = 2; m <= 64; ++m) {
      SCOPED_TRACE(concat(p, " ranks, ", m, " micro-batches"));
      check(p, m);
    }
  }
}

// (M + P - 1)(F + B): GPipe (arXiv 1811.06965), and 1F1B, which only holds less.
TEST(PipelineSimulator, GpipeAnd1f1bTakeTheClosedFormsTime) {
  for_ranks_and_micro_batches([](int64_t p, int64_t m) {
    const StageTimes times{.forward_s = 1.5, .backward_s = 2.75};
    const auto rounds = static_cast<double>(m + p - 1);
    for (const char* spec : {"gpipe", "1f1b", "1f1b:eager=true"}) {
      const Timeline timeline = timeline_of(spec, {p, p, m}, times);
      EXPECT_NEAR(timeline.step_s(), rounds * 4.25, kClose) << spec;
      EXPECT_NEAR(timeline.bubble(), static_cast<double>(p - 1) / rounds, kClose) << spec;
    }
  });
}

// The bubble is (P - 1) / (V M) of the work (arXiv 2104.04473, section 2.2.2).
TEST(PipelineSimulator, InterleavedStagesDivideTheBubble) {
  for_ranks_and_micro_batches([](int64_t p, int64_t m) {
    for (int64_t v = 2; v <= 3; ++v) {
      if (m < p) continue;
      const double part = 1. / static_cast<double>(v);
      const Timeline timeline =
          timeline_of("interleaved", {v * p, p, m}, {.forward_s = part, .backward_s = 2 * part});
      const double work = 3. * static_cast<double>(m);
      EXPECT_NEAR((timeline.step_s() - work) / work,
                  static_cast<double>(p - 1) / static_cast<double>(v * m),
                  kClose);
    }
  });
}

// (P - 1)(F + I - W) idle (arXiv 2401.10241, table 2, ZB-H1): a third of 1F1B's bubble when all are
// equal.
TEST(PipelineSimulator, Zb1pFillsTwoThirdsOfTheBubble) {
  for_ranks_and_micro_batches([](int64_t p, int64_t m) {
    if (m < p) return;
    const auto work = 3. * static_cast<double>(m), hops = static_cast<double>(p - 1);
    EXPECT_NEAR(timeline_of("zb1p", {p, p, m}, {}).step_s(), work + hops, kClose);
    const StageTimes uneven{.forward_s = 2, .input_s = 2.5, .weight_s = 1.5};
    EXPECT_NEAR(timeline_of("zb1p", {p, p, m}, uneven).step_s(), 2 * work + 3 * hops, kClose);
  });
}

// No rank is idle between its first action and its last (arXiv 2401.10241, section 6); rank r
// begins r F late.
TEST(PipelineSimulator, ZbvHasNoBubbleWhenForwardAndBothHalvesAreEqual) {
  for_ranks_and_micro_batches([](int64_t p, int64_t m) {
    if (m < 2 * p - 1) return;
    const Timeline timeline = timeline_of("zbv", {2 * p, p, m}, {});
    EXPECT_NEAR(timeline.idle_s(), 0, kClose);
    EXPECT_NEAR(timeline.step_s(), static_cast<double>(6 * m + p - 1), kClose);
  });
}

// Less bubble than 1F1B at no more bytes: what ZBV and ZB1P are for. A stage of ZBV is half as
// large.
TEST(PipelineSimulator, ZeroBubbleSchedulesHoldNoMoreThan1f1b) {
  for_ranks_and_micro_batches([](int64_t p, int64_t m) {
    const auto most = [&](const std::string& spec, int64_t stages, double activation) {
      const std::vector<StageBytes> bytes(static_cast<size_t>(stages), {activation, activation});
      return std::ranges::max(peak_bytes(make_schedule(spec, {stages, p, m}).lists, bytes));
    };
    EXPECT_LE(most("zb1p", p, 1), most("1f1b", p, 1));
    EXPECT_LE(most("zbv", 2 * p, .5), most("1f1b", p, 1));
  });
}

TEST(PipelineSimulator, TwoStagesByHand) {
  // 0F0 0-1, sent 1-1.5; 1F0 1.5-3.5, 1B0 3.5-4.5, sent -4.75; 0B0 4.75-7.75.
  const std::vector<StageTimes> stages = {{.forward_s = 1, .backward_s = 3, .activation_s = .5},
                                          {.forward_s = 2, .backward_s = 1, .gradient_s = .25}};
  const Simulator simulator(parse_csv("0F0,0B0\n1F0,1B0\n"));
  const Timeline timeline = simulator.run(stages);
  EXPECT_DOUBLE_EQ(timeline.step_s(), 7.75);
  EXPECT_DOUBLE_EQ(timeline.ranks[1][0].start_s, 1.5);
  EXPECT_DOUBLE_EQ(timeline.ranks[0][1].start_s, 4.75);
  EXPECT_DOUBLE_EQ(timeline.busy_s(0), 4);
  EXPECT_DOUBLE_EQ(timeline.bubble(), 1 - 7 / 15.5);
  EXPECT_DOUBLE_EQ(timeline.idle_s(), 3.75);
  EXPECT_EQ(simulator.critical_path(stages).size(), 4u);
}

TEST(PipelineSimulator, MessagesAsRendezvousTakeBothRanksTime) {
  const std::vector<StageTimes> stages = {{.forward_s = 1, .backward_s = 1, .activation_s = 2},
                                          {.forward_s = 1, .backward_s = 1, .gradient_s = 2}};
  const ActionLists lists = parse_csv("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  // Buffered: F0 -1, message -3, 1F0 1B0 3-5, message -7, 0B0 7-8; 1F1 1B1 5-7, message -9, 0B1
  // 9-10.
  EXPECT_DOUBLE_EQ(Simulator(lower(lists, Sends::kBuffered)).step_s(stages), 10);
  // Rendezvous: 0F0 -1, both -3; 0F1 -4 and 1F0 1B0 -5; each message after the other.
  const Simulator both(lower(lists, Sends::kRendezvous), Sends::kRendezvous);
  EXPECT_GT(both.step_s(stages), 10);
  for (const auto& spans : both.run(stages).ranks) {
    for (size_t i = 0; i + 1 < spans.size(); ++i) EXPECT_LE(spans[i].end_s, spans[i + 1].start_s);
  }
}

// What eager 1F1B is for: with transfers as long as half a forward it is faster, at more
// activations.
TEST(PipelineSimulator, EagerWarmUpHidesTransfers) {
  const StageTimes times{.forward_s = 1, .backward_s = 2, .activation_s = .5, .gradient_s = .5};
  const PipelineSizes sizes{4, 4, 16};
  const double plain = timeline_of("1f1b", sizes, times).step_s();
  const double eager = timeline_of("1f1b:eager=true", sizes, times).step_s();
  // At best each rank only fills and drains by the transfers: (M + P - 1)(F + B) + 2 (P - 1) / 2.
  EXPECT_NEAR(eager, 19 * 3 + 3, kClose);
  EXPECT_GT(plain, eager + 4);
}

TEST(PipelineSimulator, AStepIsAsLongAsItsCriticalPath) {
  const std::vector<StageTimes> stages = {
      {1, 2.5, 1, 1.5, .25, .125}, {2, 3, 1.5, 1.5, .5, .5}, {1.5, 4, 2, 2, .125, .25}};
  for (const char* spec : {"gpipe", "1f1b", "zb1p"}) {
    const Simulator simulator(make_schedule(spec, {3, 3, 7}).lists);
    double sum = 0;
    const Dependency* last = nullptr;
    for (const int64_t index : simulator.critical_path(stages)) {
      const Dependency& node = simulator.dependencies().all()[static_cast<size_t>(index)];
      const StageTimes& times = stages[static_cast<size_t>(node.action.stage)];
      if (last != nullptr && last->rank != node.rank) {
        const StageTimes& sender = stages[static_cast<size_t>(last->action.stage)];
        sum += node.action.kind == ActionKind::kForward ? sender.activation_s : sender.gradient_s;
      }
      sum += times.of(node.action.kind);
      last = &node;
    }
    EXPECT_NEAR(sum, simulator.step_s(stages), kClose) << spec;
    EXPECT_NEAR(simulator.run(stages).step_s(), simulator.step_s(stages), kClose);
  }
}

TEST(PipelineSimulator, RefusesListsThatCannotRunAndTimesThatAreNone) {
  EXPECT_THAT(refusal_of([] { Simulator(parse_csv("0F0\n")); }), HasSubstr("(0B0) is missing"));
  const Simulator simulator(parse_csv("0F0,0B0\n"));
  EXPECT_THAT(refusal_of([&] { simulator.run({}); }), HasSubstr("0 for 1 stages"));
  EXPECT_THAT(refusal_of([&] { simulator.run(std::vector<StageTimes>{{.forward_s = -1}}); }),
              HasSubstr("a time of stage 0"));
}

}  // namespace
}  // namespace muster::pipeline
