// What every pipeline schedule keeps to, whoever added it. Runs over the table, and over the worked
// example of docs/add-a-pipeline-schedule.md.
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/pipeline/order/check.h"
#include "muster/pipeline/order/lower.h"
#include "muster/pipeline/schedule/schedule.h"
#include "muster/pipeline/simulate/simulator.h"

#include "tests/support/error_of.h"

namespace muster::pipeline {

namespace worked {
extern const ScheduleEntry looped_gpipe_entry;  // worked_schedule_test.cpp
}

namespace {

using test::refusal_of;
using ::testing::HasSubstr;
using worked::looped_gpipe_entry;

std::vector<std::string> all_schedules() {
  auto all = schedules().names();
  // Unless a reader of the guide has added it to the table.
  if (!schedules().find(looped_gpipe_entry.name)) all.emplace_back(looped_gpipe_entry.name);
  return all;
}

class EachPipelineSchedule : public ::testing::TestWithParam<std::string> {
 protected:
  const ScheduleEntry& entry() const {
    return GetParam() == looped_gpipe_entry.name ? looped_gpipe_entry : schedules().at(GetParam());
  }
  Schedule make(const PipelineSizes& sizes) const { return entry().make(sizes, {}); }

  /// All sizes that it takes among 1 to 8 ranks and one to three stages on each, with these
  /// micro-batches: a schedule may refuse numbers of stages, and then says so, and none of those.
  template <class Check>
  void for_sizes(const std::vector<int64_t>& all_micro_batches, Check&& check) const {
    for (int64_t ranks = 1; ranks <= 8; ++ranks) {
      int64_t taken = 0;
      for (int64_t per_rank = 1; per_rank <= 3; ++per_rank) {
        if (!suits(ranks * per_rank, ranks)) continue;
        ++taken;
        for (const int64_t micro_batches : all_micro_batches) {
          const PipelineSizes sizes{ranks * per_rank, ranks, micro_batches};
          SCOPED_TRACE(concat(ranks, " ranks, ", per_rank, " stages each, ", micro_batches));
          check(sizes, make(sizes));
        }
      }
      EXPECT_GE(taken, 1) << ranks << " ranks";
      EXPECT_TRUE(suits(ranks * entry().stages_per_rank, ranks)) << "as its entry says";
    }
  }
  template <class Check>
  void for_sizes(Check&& check) const {
    for_sizes({1, 2, 3, 4, 5, 7, 8, 13, 16, 32, 33, 64}, check);
  }

 private:
  bool suits(int64_t stages, int64_t ranks) const {
    const std::string refusal = test::error_of([&] { make({stages, ranks, 1}); });
    if (refusal == test::kNoError) return true;
    EXPECT_THAT(refusal, HasSubstr("stage"));
    return false;
  }
};

TEST_P(EachPipelineSchedule, MakesListsThatRunAndHoldWhatItSays) {
  std::vector<int64_t> all(64);
  std::iota(all.begin(), all.end(), 1);
  for_sizes(all, [](const PipelineSizes& sizes, const Schedule& schedule) {
    ASSERT_EQ(schedule.lists.placement.stages(), sizes.stages);
    ASSERT_EQ(schedule.lists.micro_batches, sizes.micro_batches);
    const auto fault = find_fault(schedule.lists, {.in_flight = schedule.in_flight});
    ASSERT_FALSE(fault) << fault->text();
    EXPECT_FALSE(schedule.lists.has_messages());
    EXPECT_EQ(peak_in_flight(schedule.lists), schedule.in_flight);
  });
}

TEST_P(EachPipelineSchedule, MakesTheSameListsAgain) {
  const PipelineSizes sizes{4 * entry().stages_per_rank, 4, 8};
  EXPECT_EQ(make(sizes).lists, make(sizes).lists);
}

TEST_P(EachPipelineSchedule, IsIdleAsItsFormulaSays) {
  int64_t known = 0;
  for_sizes([&](const PipelineSizes& sizes, const Schedule& schedule) {
    const Simulator simulator(schedule.lists);
    for (const StageTimes& times : {StageTimes{},
                                    StageTimes{2, 5, 3, 2},
                                    StageTimes{.25, .75, .5, .125},
                                    StageTimes{3, 3, 1, 4}}) {
      const auto expected = schedule.idle_s(times);
      if (!expected) continue;
      ++known;
      const Timeline timeline = simulator.run(equal_stages(sizes.stages, times));
      EXPECT_NEAR(timeline.idle_s(), *expected, 1e-9 * timeline.step_s());
    }
  });
  EXPECT_GT(known, 30);
}

TEST_P(EachPipelineSchedule, GetsMessagesThatRunWhetherOrNotSendsWait) {
  for_sizes([](const PipelineSizes& sizes, const Schedule& schedule) {
    const ActionLists buffered = lower(schedule.lists, Sends::kBuffered);
    const ActionLists rendezvous = lower(schedule.lists, Sends::kRendezvous);
    EXPECT_EQ(buffered.has_messages(), sizes.ranks > 1);
    for (const auto& [lists, sends] : {std::pair(buffered, Sends::kBuffered),
                                       std::pair(rendezvous, Sends::kRendezvous),
                                       std::pair(rendezvous, Sends::kBuffered)}) {
      const auto fault = find_fault(lists, {.sends = sends, .in_flight = schedule.in_flight});
      ASSERT_FALSE(fault) << fault->text();
    }
    // Where messages are buffered they cost no more than the wait for what makes them.
    const auto stages = equal_stages(sizes.stages, {1, 2.5, 1, 1.25, .125, .25});
    EXPECT_EQ(Simulator(buffered).step_s(stages), Simulator(schedule.lists).step_s(stages));
  });
}

TEST_P(EachPipelineSchedule, AveragesEachStageOnceBehindItsLastBackward) {
  for_sizes([](const PipelineSizes& sizes, const Schedule& schedule) {
    const ActionLists lists = lower(with_averages(schedule.lists), Sends::kBuffered);
    ASSERT_FALSE(find_fault(lists));
    int64_t averages = 0;
    for (const auto& actions : lists.ranks) {
      averages += std::ranges::count(actions, ActionKind::kAverageGradients, &Action::kind);
    }
    EXPECT_EQ(averages, sizes.stages);
  });
}

TEST_P(EachPipelineSchedule, RefusesSizesAndParametersThatAreNone) {
  EXPECT_THAT(refusal_of([&] { make({0, 0, 1}); }), HasSubstr(GetParam()));
  EXPECT_THAT(refusal_of([&] { make({2, 2, 0}); }), HasSubstr(GetParam()));
  EXPECT_THAT(refusal_of([&] { make({3, 2, 4}); }), HasSubstr("3 stages on 2 ranks"));
  EXPECT_THAT(refusal_of([&] { make({1 << 20, 1 << 20, 1 << 20}); }), HasSubstr(GetParam()));
  EXPECT_THAT(refusal_of([&] {
                entry().make({4, 2, 4}, {{"no_such", "1"}});
              }),
              HasSubstr("no_such"));
}

INSTANTIATE_TEST_SUITE_P(All,
                         EachPipelineSchedule,
                         ::testing::ValuesIn(all_schedules()),
                         [](const auto& info) { return "schedule_" + info.param; });

TEST(PipelineSchedules, AreMadeByName) {
  EXPECT_EQ(make_schedule("1f1b", {2, 2, 4}).in_flight, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(make_schedule("1f1b:eager=true", {3, 3, 8}).in_flight, (std::vector<int64_t>{5, 3, 1}));
  EXPECT_THAT(refusal_of([] {
                make_schedule("1f2b", {2, 2, 4});
              }),
              HasSubstr("did you mean \"1f1b\""));
}

}  // namespace
}  // namespace muster::pipeline
