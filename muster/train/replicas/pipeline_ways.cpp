// Other pipelines of the same model, which take less memory: as one says them, for hints.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/pipeline/schedule/schedule.h"
#include "muster/train/plan/fit_plan.h"
#include "muster/train/replicas/batch_pieces.h"
#include "muster/train/replicas/pipeline_strategy.h"

namespace muster::train::detail {
namespace {

/// The strategy's name with all its parameters.
std::string said_strategy(const FitNumbers& numbers, const ParamValues& params) {
  std::vector<std::string> said;
  for (const auto& [name, value] : params) said.push_back(concat(name, '=', value));
  return concat(numbers.strategy_name, ':', join(said, ","));
}

/// The schedule that is said, or the one that is where none is.
std::string schedule_of(const PipelineStrategyOptions& options) {
  return options.schedule == kMeasured ? PipelineStrategyOptions().schedule : options.schedule;
}

int64_t stages_of(const PipelineStrategyOptions& options, int64_t ranks) {
  return stage_counts({.schedule = schedule_of(options), .split = options.split}, ranks).front();
}

bool takes_one_piece(const PipelineStrategyOptions& options, int64_t ranks) {
  try {
    pipeline::make_schedule(schedule_of(options), {stages_of(options, ranks), ranks, 1});
    return true;
  } catch (const Error&) {  // one for which there are as many as ranks at least
    return false;
  }
}

/// How much of a batch a rank has at most between forward and backward, of the rank that has most: with
/// some schedules it is less the more pieces there are, with others it is all.
double share_in_flight(const PipelineStrategyOptions& options, int64_t ranks, int64_t pieces) {
  const auto made =
      pipeline::make_schedule(schedule_of(options), {stages_of(options, ranks), ranks, pieces});
  return static_cast<double>(std::ranges::max(made.in_flight)) / static_cast<double>(pieces);
}

/// Where stages begin so that the largest holds as little as can be; empty: fewer units than stages.
pipeline::Split even_cut(const std::vector<UnitNeeds>& units, size_t stages) {
  const size_t count = units.size();
  if (stages < 1 || count < stages) return {};
  std::vector<double> before(count + 1);
  for (size_t i = 0; i < count; ++i) before[i + 1] = before[i] + units[i].held + units[i].state;
  constexpr double kNone = std::numeric_limits<double>::infinity();
  // Of the first `end` units in so many stages: the most that one holds, and where the last begins.
  std::vector<std::vector<std::pair<double, size_t>>> best(
      stages + 1, std::vector<std::pair<double, size_t>>(count + 1, {kNone, 0}));
  best[0][0].first = 0;
  for (size_t made = 1; made <= stages; ++made)
    for (size_t end = made; end <= count; ++end)
      for (size_t begin = made - 1; begin < end; ++begin) {
        const double most = std::max(best[made - 1][begin].first, before[end] - before[begin]);
        if (most < best[made][end].first) best[made][end] = {most, begin};
      }
  pipeline::Split first_block(stages);
  for (size_t made = stages, end = count; made > 0; --made) {
    end = best[made][end].second;
    first_block[made - 1] = static_cast<int64_t>(end);
  }
  return first_block;
}

/// What the rank that holds most does; `adds`: each piece adds its gradients.
double most_of_rank(const pipeline::Placement& placement,
                    const pipeline::Split& first_block,
                    const std::vector<UnitNeeds>& units,
                    bool adds) {
  double most = 0;
  for (int64_t rank = 0; rank < placement.ranks(); ++rank) {
    double held = 0, largest = 0;
    for (const int64_t stage : placement.stages_of(rank)) {
      const auto at = static_cast<size_t>(stage);
      const size_t end =
          at + 1 < first_block.size() ? static_cast<size_t>(first_block[at + 1]) : units.size();
      for (auto unit = static_cast<size_t>(first_block[at]); unit < end; ++unit) {
        held += units[unit].held + units[unit].state;
        largest = std::max(largest, units[unit].largest_gradient);
      }
    }
    most = std::max(most, held + (adds ? largest : 0));
  }
  return most;
}

}  // namespace

std::string with_smaller_pieces(const FitNumbers& numbers,
                                ParamValues params,
                                std::string_view owner) {
  const PipelineStrategyOptions options = pipeline_options(params, owner);
  if (options.micro_batches == kMeasuredMicroBatches) return "";  // chosen as there is room
  const int64_t batch = numbers.batch_per_rank, ranks = numbers.ranks_per_replica;
  int64_t pieces = pieces_of_batch(batch, options.micro_batches);
  const double kept = share_in_flight(options, ranks, pieces);
  while (pieces_of_batch(batch, 2 * pieces) > pieces) {
    pieces = pieces_of_batch(batch, 2 * pieces);
    if (share_in_flight(options, ranks, pieces) >= kept) continue;
    params["micro_batches"] = std::to_string(pieces);
    return said_strategy(numbers, params);
  }
  return "";
}

std::string with_one_piece(const FitNumbers& numbers, ParamValues params, std::string_view owner) {
  const PipelineStrategyOptions options = pipeline_options(params, owner);
  const bool is_open = options.micro_batches == kMeasuredMicroBatches;
  const int64_t batch = numbers.batch_per_rank;
  if (pieces_of_batch(batch, is_open ? batch : options.micro_batches) == 1) return "";
  if (!takes_one_piece(options, numbers.ranks_per_replica)) return "";
  params["micro_batches"] = "1";
  return said_strategy(numbers, params);
}

std::string with_named_cut(const FitNumbers& numbers,
                           ParamValues params,
                           const std::vector<UnitNeeds>& units,
                           double room,
                           std::string_view owner) {
  PipelineStrategyOptions options = pipeline_options(params, owner);
  const int64_t ranks = numbers.ranks_per_replica;
  if (options.split != kMeasured) return "";
  if (options.schedule == kMeasured) params.erase("schedule");
  if (options.micro_batches == kMeasuredMicroBatches) {
    params.erase("micro_batches");
    options.micro_batches = PipelineStrategyOptions().micro_batches;
  }
  const int64_t stages = stages_of(options, ranks);
  const pipeline::Split first_block = even_cut(units, static_cast<size_t>(stages));
  if (first_block.empty()) return "";
  const int64_t pieces = pieces_of_batch(numbers.batch_per_rank, options.micro_batches);
  const auto placement =
      pipeline::make_schedule(schedule_of(options), {stages, ranks, options.micro_batches})
          .lists.placement;
  const auto fits = [&](bool adds) {
    return most_of_rank(placement, first_block, units, adds) <= room;
  };
  if (!fits(pieces > 1)) {
    if (!takes_one_piece(options, ranks) || !fits(false)) return "";
    params["micro_batches"] = "1";
  }
  params["split"] = text_of_split(first_block);
  return said_strategy(numbers, params);
}

}  // namespace muster::train::detail
