// Which schedule, how many micro-batches, and where to cut.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/pipeline/partition/partition.h"

namespace muster::pipeline {

/// What may be chosen. Every combination is tried that the schedule takes and for which there are
/// enough blocks.
struct PlanChoices {
  int64_t ranks = 1;
  std::vector<std::string> schedules;         ///< "1f1b", "interleaved", …
  std::vector<int64_t> stages_per_rank = {};  ///< empty: what each schedule is made for
  std::vector<int64_t> micro_batches;
};

/// A pipeline, chosen and cut.
struct PipelinePlan {
  std::string schedule;
  PipelineSizes sizes;
  Partition partition;
  std::vector<StageTimes> stages;
  double bubble = 0;  ///< Timeline::bubble of the simulated step
  double idle_s = 0;
};

/// The blocks' costs for a micro-batch when the batch is cut into so many.
using BlocksFor = std::function<std::vector<BlockCosts>(int64_t micro_batches)>;

/// The plan with the shortest simulated step, the first of equals in the order of the choices.
/// Nothing if none fits into memory. Throws a usage error if no combination can be made at all, and
/// for unknown schedules.
std::optional<PipelinePlan> choose_plan(const BlocksFor& blocks,
                                        const PlanChoices& choices,
                                        const PartitionOptions& options = {});

/// The plan of a pipeline that is cut already, of blocks that cost this. Throws a usage error for sizes
/// that the schedule does not take, and for costs that make no sense.
PipelinePlan plan_of(const std::string& schedule,
                     const PipelineSizes& sizes,
                     std::span<const BlockCosts> blocks,
                     Split first_block);

/// A plan in words: a line on the whole, then a table of the stages with their blocks and times per
/// micro-batch, and the ranks' bytes. With `measured`, one StageTimes per stage, a column of what
/// was measured stands beside what was predicted. At most `width` columns.
std::string explain(const PipelinePlan& plan,
                    int64_t blocks,
                    std::span<const StageTimes> measured = {},
                    size_t width = 80);

}  // namespace muster::pipeline
