#include "muster/train/replicas/pipeline_measurements.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/memory/guard/oom.h"
#include "muster/parallel/pipeline/measure.h"
#include "muster/pipeline/schedule/schedule.h"
#include "muster/tensor/device/generators.h"
#include "muster/train/plan/fit_plan.h"
#include "muster/train/plan/precision.h"
#include "muster/train/replicas/batch_pieces.h"

namespace muster::train::detail {
namespace {

using parallel::Tensors;

// Note [Measured pipelines]: with so many the bubble is a ninth of a step, whatever the ranks.
constexpr int64_t kMostForEachRank = 8;

/// Bytes of optimizer state for each byte of a parameter, as a step on a small one leaves them.
double state_bytes_per_byte(const FitPlan& plan) {
  const at::Tensor parameter = at::ones({2}).requires_grad_();
  const auto optimizer = make_optimizer(plan, {}, {{"parameter", parameter}});
  set_most_momentum(plan, *optimizer);
  parameter.mutable_grad() = at::ones({2});
  optimizer->step();
  double bytes = 0;
  for (const auto& [name, tensor] : optimizer->state())
    if (tensor.dim() > 0) bytes += static_cast<double>(tensor.nbytes());
  return bytes / static_cast<double>(parameter.nbytes());
}

std::vector<double> times_the_room(std::vector<double> room, double factor) {
  for (double& bytes : room) bytes *= factor;
  return room;
}

// Of shares of the rooms: as near as one that fits is to one that does not.
constexpr double kNearLeast = 1.01;
// To tell the least share: of few ranks and units that is all of the cuts.
constexpr int64_t kVisitsForLeast = 2'000;

/// With `batch_bytes` beside what each stage holds.
PipelineMeasurements::Found found_of(const pipeline::PipelinePlan& plan,
                                     const std::vector<double>& room,
                                     double batch_bytes) {
  std::vector<StageAccount> stages = predicted_stages(plan);
  for (StageAccount& stage : stages) stage.bytes += batch_bytes;
  const double share = share_of_room(plan.partition.rank_bytes, room);
  return {plan.schedule,
          plan.sizes.micro_batches,
          plan.partition.first_block,
          std::max(1.0, share),
          concat("a step of ",
                 precise_duration(plan.partition.step_s),
                 ", bubble ",
                 fixed(100 * plan.bubble, 1),
                 " %"),
          std::move(stages),
          share};
}

}  // namespace

pipeline::PlanChoices PipelineMeasurements::choices(const PipelineStrategyOptions& options) const {
  pipeline::PlanChoices choices{.ranks = ranks_};
  if (options.schedule != kMeasured) {
    choices.schedules = {options.schedule};
  } else {
    for (const pipeline::ScheduleEntry* entry : pipeline::schedules()) {
      if (ranks_ * entry->stages_per_rank <= std::ssize(blocks_))
        choices.schedules.emplace_back(entry->name);
    }
  }
  if (options.micro_batches != kMeasuredMicroBatches) {
    choices.micro_batches = {options.micro_batches};
  } else {
    const int64_t most =
        ranks_ == 1 ? 1 : pieces_of_batch(request_.plan.batch_per_rank, kMostForEachRank * ranks_);
    for (int64_t count = 1; count <= most; count *= 2) choices.micro_batches.push_back(count);
  }
  return choices;
}

const std::vector<pipeline::BlockCosts>& PipelineMeasurements::costs(int64_t micro_batches) {
  const auto known = costs_.find(micro_batches);
  if (known != costs_.end()) return known->second;
  return costs_[micro_batches] = measure(micro_batches, checkpointed_);
}

std::vector<pipeline::BlockCosts> PipelineMeasurements::measure(
    int64_t micro_batches, const std::vector<bool>& checkpointed) const {
  const tensor::GeneratorAsItWas generator(request_.generator);
  const PrecisionGuard guard(request_.plan.precision.kind, request_.device);
  const int64_t rows = rows_of(micro_batches);
  const Pass pass = request_.example(rows);
  return parallel::measure_blocks(
      blocks_,
      {.inputs = calls_.inputs_of(pass, kExampleSeed), .count = static_cast<double>(rows)},
      [&](const Tensors& outputs, const Tensors&) {
        return calls_.with_outputs(outputs, pass, kExampleSeed).loss;
      },
      request_.device,
      {.warm_up = 1,
       .repeats = 3,
       .threads_per_rank = at::get_num_threads(),
       .bytes_beside_parameter = 1 + state_bytes_per_byte(request_.plan),
       .checkpointed = checkpointed});
}

std::optional<pipeline::PipelinePlan> PipelineMeasurements::plan_within(
    const pipeline::PlanChoices& choices, const pipeline::PartitionOptions& memory) {
  std::exception_ptr no_room;
  const pipeline::BlocksFor costs_for = [&](int64_t micro_batches) {
    try {
      return costs(micro_batches);
    } catch (const std::exception&) {
      // A unit does not fit with so many rows: choose_plan() goes on to the next number.
      if (!memory::is_oom(std::current_exception())) throw;
      no_room = std::current_exception();
      return costs_[micro_batches] = {};
    }
  };
  try {
    return pipeline::choose_plan(costs_for, choices, memory);
  } catch (const Error&) {
    if (no_room) std::rethrow_exception(no_room);
    throw;
  }
}

PipelineMeasurements::Found PipelineMeasurements::fastest(const PipelineStrategyOptions& options,
                                                          const std::vector<double>& room) {
  const pipeline::PlanChoices all = choices(options);
  const auto within = [&](double factor) {
    return plan_within(all, {.memory_bytes = times_the_room(room, factor)});
  };
  if (const auto plan = within(1)) return found_of(*plan, room, request_.batch_bytes);
  pipeline::PipelinePlan least = plan_within(all, {}).value();
  double fits = share_of_room(least.partition.rank_bytes, room),
         too_small = 1;  // these times the room
  while (fits > kNearLeast * too_small) {
    const double between = std::sqrt(fits * too_small);
    if (auto plan = within(between)) {
      least = *std::move(plan);
      fits = between;
    } else {
      too_small = between;
    }
  }
  return found_of(least, room, request_.batch_bytes);
}

std::optional<PipelineMeasurements::Found> PipelineMeasurements::least(
    const PipelineStrategyOptions& options, const std::vector<double>& room, const Found& chosen) {
  const pipeline::PlanChoices all = choices(options);
  std::optional<pipeline::PipelinePlan> best;
  double fits = chosen.share_of_room, too_small = 0;
  while (fits > kNearLeast * too_small) {
    const double between = too_small > 0 ? std::sqrt(fits * too_small) : fits / 2;
    auto plan = plan_within(
        all, {.memory_bytes = times_the_room(room, between), .most_visits = kVisitsForLeast});
    if (!plan) {
      too_small = between;
      continue;
    }
    best = std::move(plan);
    fits = share_of_room(best->partition.rank_bytes, room);
  }
  if (!best || chosen.share_of_room < kNearLeast * fits) return std::nullopt;
  return found_of(*best, room, request_.batch_bytes);
}

PipelineMeasurements::Found PipelineMeasurements::treated(const PipelineCut& cut,
                                                          const Treated& treatment,
                                                          const std::vector<double>& room) const {
  std::vector<pipeline::BlockCosts> costs = measure(cut.micro_batches, treatment.checkpointed);
  for (size_t stage = 0; stage < cut.first_block.size(); ++stage) {
    if (!treatment.offloaded[stage]) continue;
    const bool is_last = stage + 1 == cut.first_block.size();
    const auto end = is_last ? costs.size() : static_cast<size_t>(cut.first_block[stage + 1]);
    let_wait_on_host(costs,
                     static_cast<size_t>(cut.first_block[stage]),
                     end - 1,
                     treatment.bytes,
                     treatment.offload_bytes_per_s);
  }
  const pipeline::PipelinePlan plan = pipeline::plan_of(
      cut.schedule,
      {.stages = std::ssize(cut.first_block), .ranks = ranks_, .micro_batches = cut.micro_batches},
      costs,
      cut.first_block);
  return found_of(plan, room, request_.batch_bytes);
}

}  // namespace muster::train::detail
