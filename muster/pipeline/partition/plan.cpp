#include "muster/pipeline/partition/plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "muster/base/counted.h"
#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/base/text_table.h"
#include "muster/pipeline/simulate/simulator.h"

namespace muster::pipeline {
namespace {

std::vector<PipelineSizes> sizes_of(const std::string& schedule, const PlanChoices& choices) {
  const ScheduleEntry& entry = schedules().at(parse_spec(schedule).name);
  std::vector<int64_t> per_rank = choices.stages_per_rank;
  if (per_rank.empty()) per_rank.push_back(entry.stages_per_rank);
  std::vector<PipelineSizes> out;
  for (const int64_t count : per_rank) {
    for (const int64_t micro_batches : choices.micro_batches)
      out.push_back({count * choices.ranks, choices.ranks, micro_batches});
  }
  return out;
}

/// Nothing, and why, if the schedule does not take the sizes.
std::optional<Schedule> try_make(const std::string& spec,
                                 const PipelineSizes& sizes,
                                 std::string& why_not) {
  try {
    return make_schedule(spec, sizes);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) throw;
    why_not = error.what();
    return {};
  }
}

PipelinePlan plan_with_times(const std::string& spec,
                             const PipelineSizes& sizes,
                             const ActionLists& lists,
                             const BlockSums& sums,
                             Partition partition) {
  PipelinePlan plan{spec, sizes, std::move(partition), {}, 0, 0};
  plan.stages = stage_times(sums, plan.partition.first_block);
  const Timeline timeline = Simulator(lists).run(plan.stages);
  plan.bubble = timeline.bubble();
  plan.idle_s = timeline.idle_s();
  // What the table is to show as backward, where it comes in halves.
  if (!lists.splits_backward()) return plan;
  for (StageTimes& times : plan.stages) times.backward_s = times.input_s + times.weight_s;
  return plan;
}

/// How much faster another split may be, where the search was ended.
std::string gap_of(const Partition& partition) {
  if (partition.is_best) return "";
  const double gap = 1 - partition.at_least_s / partition.step_s;
  return concat(" (the search was ended; no cuts save more than ", fixed(100 * gap, 1), " %)");
}

std::string head_of(const PipelinePlan& plan) {
  return concat(plan.schedule,
                ", ",
                counted(plan.sizes.stages, "stage"),
                " on ",
                counted(plan.sizes.ranks, "rank"),
                ", ",
                counted(plan.sizes.micro_batches, "micro-batch", "micro-batches"),
                ": step ",
                human_duration(plan.partition.step_s),
                ", bubble ",
                fixed(100 * plan.bubble, 1),
                " %, at most ",
                human_duration(plan.idle_s),
                " idle on a rank",
                gap_of(plan.partition));
}

std::string memory_of(const PipelinePlan& plan) {
  std::vector<std::string> ranks;
  for (const double bytes : plan.partition.rank_bytes)
    ranks.push_back(human_bytes(static_cast<uint64_t>(bytes)));
  return concat("bytes by rank: ", join(ranks, ", "), "\n");
}

}  // namespace

std::optional<PipelinePlan> choose_plan(const BlocksFor& blocks,
                                        const PlanChoices& choices,
                                        const PartitionOptions& options) {
  std::optional<PipelinePlan> best;
  std::string why_not = "there are no schedules or micro-batches to choose from";
  bool was_tried = false;
  for (const std::string& spec : choices.schedules) {
    for (const PipelineSizes& sizes : sizes_of(spec, choices)) {
      const auto schedule = try_make(spec, sizes, why_not);
      if (!schedule) continue;
      const std::vector<BlockCosts> costs = blocks(sizes.micro_batches);
      if (static_cast<int64_t>(costs.size()) < sizes.stages) {
        why_not = concat(costs.size(), " blocks are too few for ", sizes.stages, " stages");
        continue;
      }
      was_tried = true;
      auto cut = partition(costs, schedule->lists, options);
      if (cut && (!best || cut->step_s < best->partition.step_s))
        best = plan_with_times(spec, sizes, schedule->lists, BlockSums(costs), *std::move(cut));
    }
  }
  if (!was_tried)
    throw usage_error(
        {.refused = "no pipeline can be made of what there is to choose from", .rule = why_not});
  return best;
}

PipelinePlan plan_of(const std::string& schedule,
                     const PipelineSizes& sizes,
                     std::span<const BlockCosts> blocks,
                     Split first_block) {
  const ActionLists lists = make_schedule(schedule, sizes).lists;
  const BlockSums sums(blocks);
  Partition cut{.first_block = std::move(first_block)};
  cut.step_s = cut.at_least_s = Simulator(lists).step_s(stage_times(sums, cut.first_block));
  cut.rank_bytes = rank_bytes(sums, cut.first_block, lists);
  return plan_with_times(schedule, sizes, lists, sums, std::move(cut));
}

std::string explain(const PipelinePlan& plan,
                    int64_t blocks,
                    std::span<const StageTimes> measured,
                    size_t width) {
  Column stage{"stage"}, from{"blocks"}, forward{"forward_ms"}, backward{"backward_ms"},
      share{"of slowest"};
  Column forward_seen{"measured_f_ms"}, backward_seen{"measured_b_ms"};
  double slowest = 0;
  for (const StageTimes& times : plan.stages)
    slowest = std::max(slowest, times.forward_s + times.backward_s);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const Split& first = plan.partition.first_block;
    const int64_t last = (s + 1 < first.size() ? first[s + 1] : blocks) - 1;
    const StageTimes& times = plan.stages[s];
    stage.cells.emplace_back(static_cast<int64_t>(s));
    from.cells.emplace_back(first[s] == last ? concat(last) : concat(first[s], "-", last));
    forward.cells.emplace_back(1e3 * times.forward_s);
    backward.cells.emplace_back(1e3 * times.backward_s);
    const double part = slowest > 0 ? (times.forward_s + times.backward_s) / slowest : 1;
    share.cells.emplace_back(concat(std::llround(100 * part), " %"));
    if (s >= measured.size()) continue;
    forward_seen.cells.emplace_back(1e3 * measured[s].forward_s);
    backward_seen.cells.emplace_back(1e3 * measured[s].backward_s);
  }
  std::vector<Column> columns = {stage, from, forward, backward, share};
  if (!measured.empty()) columns.insert(columns.end(), {forward_seen, backward_seen});
  return fold(head_of(plan), width) + grid(std::move(columns), width) + memory_of(plan);
}

}  // namespace muster::pipeline
