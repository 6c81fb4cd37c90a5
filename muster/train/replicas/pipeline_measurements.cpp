#include "muster/train/replicas/pipeline_measurements.h"

#include <cmath>
#include <map>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>

#include "muster/base/text.h"
#include "muster/parallel/activations/blocks.h"
#include "muster/parallel/activations/run_state.h"
#include "muster/parallel/pipeline/measure.h"
#include "muster/pipeline/schedule/schedule.h"
#include "muster/tensor/device/generators.h"
#include "muster/train/plan/fit_plan.h"
#include "muster/train/plan/precision.h"

namespace muster::train::detail {
namespace {

using parallel::Block;
using parallel::BlockBytes;
using parallel::Tensors;

constexpr uint64_t kExampleSeed = 1;

// Note [Measured pipelines]: with so many the bubble is a ninth of a step, whatever the ranks.
constexpr int64_t kMostForEachRank = 8;

/// How many micro-batches of a stage are at most between their forward and the end of their backward.
int64_t in_flight_of(int64_t stage, const pipeline::ActionLists& lists) {
  using pipeline::ActionKind;
  int64_t now = 0, most = 0;
  for (const auto& list : lists.ranks) {
    for (const pipeline::Action& action : list) {
      if (action.stage != stage) continue;
      if (action.kind == ActionKind::kForward) most = std::max(most, ++now);
      if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardWeight) --now;
    }
  }
  return most;
}

/// Bytes of optimizer state for each byte of a parameter, as a step on a small one leaves them.
double state_bytes_per_byte(const FitPlan& plan) {
  const at::Tensor parameter = at::ones({2}).requires_grad_();
  const auto optimizer = make_optimizer(plan, {}, {{"parameter", parameter}});
  parameter.mutable_grad() = at::ones({2});
  optimizer->step();
  double bytes = 0;
  for (const auto& [name, tensor] : optimizer->state())
    if (tensor.dim() > 0) bytes += static_cast<double>(tensor.nbytes());
  return bytes / static_cast<double>(parameter.nbytes());
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
        ranks_ == 1 ? 1 : std::min(request_.plan.batch_per_rank, kMostForEachRank * ranks_);
    for (int64_t count = 1; count <= std::max<int64_t>(1, most); count *= 2)
      choices.micro_batches.push_back(count);
  }
  return choices;
}

std::vector<pipeline::BlockCosts> PipelineMeasurements::costs(int64_t micro_batches) const {
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
       .sends_copies = request_.plan.threads > 1});
}

PipelineMeasurements::Found PipelineMeasurements::fastest(const PipelineStrategyOptions& options,
                                                          const std::vector<double>& room) {
  std::map<int64_t, std::vector<pipeline::BlockCosts>> measured;
  const pipeline::BlocksFor costs_for = [&](int64_t micro_batches) {
    const auto known = measured.find(micro_batches);
    if (known != measured.end()) return known->second;
    return measured[micro_batches] = costs(micro_batches);
  };
  const pipeline::PlanChoices all = choices(options);
  const auto within = [&](std::vector<double> memory_bytes, double times) {
    for (double& bytes : memory_bytes) bytes *= times;
    return pipeline::choose_plan(costs_for, all, {.memory_bytes = memory_bytes});
  };
  const auto found = [](const pipeline::PipelinePlan& plan, double times_room) {
    return Found{plan.schedule,
                 plan.sizes.micro_batches,
                 plan.partition.first_block,
                 times_room,
                 concat("a step of ",
                        human_duration(plan.partition.step_s),
                        ", bubble ",
                        fixed(100 * plan.bubble, 1),
                        " %"),
                 predicted_stages(plan)};
  };
  if (const auto plan = within(room, 1)) return found(*plan, 1);
  pipeline::PipelinePlan least = within({}, 1).value();
  double fits = 1, too_small = 1;  // these times the room
  for (size_t rank = 0; rank < room.size(); ++rank)
    fits = std::max(fits, least.partition.rank_bytes[rank] / std::max(1.0, room[rank]));
  while (fits > 1.01 * too_small) {
    const double between = std::sqrt(fits * too_small);
    if (auto plan = within(room, between)) {
      least = *std::move(plan);
      fits = between;
    } else {
      too_small = between;
    }
  }
  return found(least, fits);
}

std::vector<BlockBytes> PipelineMeasurements::bytes(int64_t micro_batches) const {
  const tensor::GeneratorAsItWas generator(request_.generator);
  const PrecisionGuard guard(request_.plan.precision.kind, request_.device);
  Tensors x = calls_.inputs_of(request_.example(rows_of(micro_batches)), kExampleSeed);
  std::vector<BlockBytes> bytes;
  for (const Block& block : blocks_) {
    const parallel::RunState state(x, {{request_.generator}});
    parallel::BlockMeter meter;
    at::Tensor made;
    if (x.size() != 1) {
      throw usage_error({.refused = concat("unit ", block.name, " within a budget of activations"),
                         .rule = "a unit whose bytes are weighed takes and gives one tensor",
                         .value = concat(x.size()),
                         .hint = "take --activation-checkpointing blocks or every:K"});
    }
    const parallel::BlockOnDevice there(block, request_.device);
    state.run_in(parallel::tensors_of(parallel::buffers_of(block)), [&] {
      const bool needs_gradient = !bytes.empty() && x[0].is_floating_point();
      const at::Tensor input = x[0].detach().requires_grad_(needs_gradient);
      made = meter.call(
          [&](const at::Tensor& one) {
            x = block.forward({one});
            return x.at(0);
          },
          input);
    });
    bytes.push_back(meter.blocks()[0]);
    for (at::Tensor& tensor : x) tensor = tensor.detach();
  }
  return bytes;
}

std::vector<bool> PipelineMeasurements::checkpoints(const parallel::BlockRule& budget,
                                                    const PipelineCut& cut) const {
  const pipeline::PipelineSizes sizes{
      .stages = std::ssize(cut.first_block), .ranks = ranks_, .micro_batches = cut.micro_batches};
  const auto lists = pipeline::make_schedule(cut.schedule, sizes).lists;
  const std::vector<BlockBytes> all = bytes(cut.micro_batches);
  std::vector<bool> again(blocks_.size());
  for (int64_t rank = 0; rank < ranks_; ++rank) {
    std::vector<size_t> mine;
    std::vector<BlockBytes> theirs;
    int64_t in_flight = 1, ends = 0;
    for (const int64_t stage : lists.placement.stages_of(rank)) {
      in_flight = std::max(in_flight, in_flight_of(stage, lists));
      const size_t first = theirs.size();
      for (size_t block = 0; block < blocks_.size(); ++block) {
        if (stage_of(block, cut.first_block) != stage) continue;
        mine.push_back(block);
        theirs.push_back(all[block]);
      }
      // A stage keeps what came in and what went out, whoever needs it.
      theirs[first].saves_input = true;
      theirs.back().saves_output = false;
      ends += theirs.back().output;
    }
    const std::vector<bool> chosen =
        parallel::blocks_by_rule(budget, theirs, in_flight, in_flight * ends);
    for (size_t i = 0; i < mine.size(); ++i) again[mine[i]] = chosen[i];
  }
  return again;
}

}  // namespace muster::train::detail
