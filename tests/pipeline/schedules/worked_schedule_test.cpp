// The worked example of docs/add-a-pipeline-schedule.md: GPipe over several stages on each rank.
// schedule_contract_test.cpp runs over it as over every entry of the table.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/pipeline/schedule/schedule.h"
#include "muster/pipeline/simulate/simulator.h"

namespace muster::pipeline {
namespace {

// Breadth-first: all micro-batches go through a rank's first stage, then through its second, …; the
// backwards come the other way.
// Source: Lamy-Poirier 2022, "Breadth-First Pipeline Parallelism" (arXiv 2211.05953), section 3.
// With M >= P every rank is idle for (P-1)(F+B) of a stage's times, and holds all V M activations.

Schedule make(const PipelineSizes& sizes, const ParamValues& params) {
  check_param_names({}, params, "pipeline schedule looped_gpipe");
  require_sizes("looped_gpipe", sizes, 1, sizes.stages);
  ActionLists lists{Placement::looped(sizes.stages, sizes.ranks), sizes.micro_batches, {}};
  for (int64_t rank = 0; rank < sizes.ranks; ++rank) {
    auto& actions = lists.ranks.emplace_back();
    auto stages = lists.placement.stages_of(rank);
    for (const ActionKind kind : {ActionKind::kForward, ActionKind::kBackward}) {
      for (const int64_t stage : stages) {
        for (int64_t m = 0; m < sizes.micro_batches; ++m) actions.push_back({kind, stage, m});
      }
      std::ranges::reverse(stages);
    }
  }
  const int64_t held = sizes.stages / sizes.ranks * sizes.micro_batches;
  return {std::move(lists),
          std::vector<int64_t>(static_cast<size_t>(sizes.ranks), held),
          [sizes](const StageTimes& times) -> std::optional<double> {
            if (sizes.micro_batches < sizes.ranks) return {};
            return static_cast<double>(sizes.ranks - 1) * (times.forward_s + times.backward_s);
          }};
}

}  // namespace

namespace worked {  // not in the guide: a reader's looped_gpipe.cpp is another one

extern constinit const ScheduleEntry looped_gpipe_entry{
    "looped_gpipe", "GPipe over several stages on each rank, breadth-first", {}, 2, &make};

}  // namespace worked

namespace {

using worked::looped_gpipe_entry;

TEST(WorkedPipelineSchedule, IsIdleLessThanGpipeWithMoreStagesPerRank) {
  const auto idle = [](int64_t per_rank) {
    const Schedule schedule = looped_gpipe_entry.make({4 * per_rank, 4, 8}, {});
    const double part = 1. / static_cast<double>(per_rank);  // of a rank's layers
    return Simulator(schedule.lists)
        .run(equal_stages(4 * per_rank, {.forward_s = part, .backward_s = 2 * part}))
        .idle_s();
  };
  EXPECT_DOUBLE_EQ(idle(1), 9);
  EXPECT_DOUBLE_EQ(idle(3), 3);
}

}  // namespace
}  // namespace muster::pipeline
