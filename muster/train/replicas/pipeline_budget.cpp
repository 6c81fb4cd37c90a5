// What the stages of a pipeline do within a budget of activations.
#include <algorithm>
#include <chrono>
#include <utility>

#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/activations/blocks.h"
#include "muster/parallel/activations/run_state.h"
#include "muster/parallel/activations/stage_choice.h"
#include "muster/pipeline/schedule/schedule.h"
#include "muster/tensor/device/device_memory.h"
#include "muster/tensor/device/generators.h"
#include "muster/train/plan/fit_plan.h"
#include "muster/train/plan/precision.h"
#include "muster/train/replicas/pipeline_measurements.h"

namespace muster::train::detail {
namespace {

using parallel::Block;
using parallel::BlockBytes;
using parallel::Tensors;

constexpr int64_t kCopiedBytes = int64_t{32}
                                 << 20;  // at most, to learn how fast the way to the host is

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

/// "stage 1 on rank 1", "stages 0 and 3 on rank 0 of each pipeline"
std::string stages_text(const std::vector<int64_t>& stages, int64_t rank, bool has_replicas) {
  std::vector<std::string> numbers;
  for (const int64_t stage : stages) numbers.push_back(std::to_string(stage));
  return concat(numbers.size() == 1 ? "stage " : "stages ",
                join(numbers, " and "),
                " on rank ",
                rank,
                has_replicas ? " of each pipeline" : "");
}

/// What a budget is of: the stages of a rank, or one of them.
struct BudgetShare {
  int64_t rank = 0;
  std::vector<int64_t> numbers;  // of its stages
  int64_t bytes = 0;
  std::vector<parallel::BudgetStage> stages;
};

/// The rule with the least budgets that all shares can do with, for "--activation-checkpointing":
/// "budget:1200", or "budget:1200/800" of each stage, which leaves those that are large enough.
std::string least_rule(const std::vector<BudgetShare>& shares, bool of_stages, bool offloads) {
  std::vector<int64_t> needed(of_stages ? shares.size() : 1);
  for (const BudgetShare& share : shares) {
    const int64_t least = parallel::least_budget(share.stages, offloads ? 1 : 0);
    int64_t& most = needed[of_stages ? static_cast<size_t>(share.numbers[0]) : 0];
    most = std::max({most, least, of_stages ? share.bytes : 0});
  }
  std::vector<std::string> budgets;
  for (const int64_t bytes : needed) budgets.push_back(std::to_string(bytes));
  return "budget:" + join(budgets, "/");
}

/// What to do about a budget that is too small.
std::string budget_hint(const std::vector<BudgetShare>& shares,
                        const parallel::BlockRule& budget,
                        bool offloads,
                        bool may_offload) {
  const bool of_stages = !budget.stage_budgets.empty();
  const std::string least = least_rule(shares, of_stages, offloads);
  const std::string with_host = least_rule(shares, of_stages, may_offload);
  return concat("take ",
                least,
                offloads || !may_offload ? "" : ",offload=off",
                " or more, ",
                with_host != least ? concat(with_host, " with activations on the host, ") : "",
                "or a smaller batch");
}

}  // namespace

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

/// Between this rank's device and pinned host memory, there and back; 0 on the CPU.
double PipelineMeasurements::offload_bytes_per_s(const parallel::BlockRule& budget) const {
  if (request_.device.is_cpu()) return 0;
  if (budget.offload_bytes_per_s) return static_cast<double>(*budget.offload_bytes_per_s);
  const auto bytes = at::device(request_.device).dtype(at::kByte);
  const auto free = static_cast<int64_t>(tensor::free_bytes_of(request_.device));
  const int64_t copied = std::clamp<int64_t>(free / 4, 1, kCopiedBytes);
  const at::Tensor there = at::empty({copied}, bytes);
  const at::Tensor host = at::empty({copied}, bytes.device(at::kCPU).pinned_memory(true));
  const c10::impl::VirtualGuardImpl device(request_.device.type());
  double seconds = 0;
  for (int round = 0; round < 2; ++round) {  // the first one finds memory
    device.synchronizeDevice(request_.device.index());
    const auto start = std::chrono::steady_clock::now();
    host.copy_(there, /*non_blocking=*/true);
    there.copy_(host, /*non_blocking=*/true);
    device.synchronizeDevice(request_.device.index());
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  return seconds > 0 ? 2 * static_cast<double>(copied) / seconds : 0;
}

PipelineMeasurements::Treated PipelineMeasurements::within(const parallel::BlockRule& budget,
                                                           const PipelineCut& cut) {
  const pipeline::PipelineSizes sizes{
      .stages = std::ssize(cut.first_block), .ranks = ranks_, .micro_batches = cut.micro_batches};
  if (!budget.stage_budgets.empty() && budget.stage_budgets.size() != cut.first_block.size())
    throw usage_error(
        {.refused = "--activation-checkpointing budget:",
         .rule = concat("one of each rank, or one of each stage: ", cut.first_block.size()),
         .value = concat(budget.stage_budgets.size(), " of them")});
  const auto lists = pipeline::make_schedule(cut.schedule, sizes).lists;
  std::vector<BlockBytes> all = bytes(cut.micro_batches);
  const std::vector<pipeline::BlockCosts>& times = costs(cut.micro_batches);
  for (size_t block = 0; block < all.size(); ++block) all[block].cost = times[block].forward_s;
  const double rate = offload_bytes_per_s(budget);
  Treated treated{.checkpointed = std::vector<bool>(blocks_.size()),
                  .offloaded = std::vector<bool>(cut.first_block.size()),
                  .offload_bytes_per_s = rate};
  const bool has_replicas = request_.group.world_size() > ranks_;
  std::vector<BudgetShare> shares;
  for (int64_t rank = 0; rank < ranks_; ++rank) {
    const std::vector<int64_t> mine = lists.placement.stages_of(rank);
    if (budget.stage_budgets.empty()) shares.push_back({rank, mine, budget.budget_bytes, {}});
    for (size_t s = 0; !budget.stage_budgets.empty() && s < mine.size(); ++s)
      shares.push_back({rank, {mine[s]}, budget.stage_budgets[static_cast<size_t>(mine[s])], {}});
  }
  for (BudgetShare& share : shares) {
    for (const int64_t number : share.numbers) {
      parallel::BudgetStage& stage = share.stages.emplace_back();
      stage.in_flight = std::max<int64_t>(1, in_flight_of(number, lists));
      for (size_t block = 0; block < blocks_.size(); ++block)
        if (stage_of(block, cut.first_block) == number) stage.blocks.push_back(all[block]);
    }
  }
  const bool may_offload = !request_.device.is_cpu();
  for (const BudgetShare& share : shares) {
    const auto made = parallel::treatment_within(
        share.stages, share.bytes, rate, stages_text(share.numbers, share.rank, has_replicas), [&] {
          return budget_hint(shares, budget, rate > 0, may_offload);
        });
    for (size_t s = 0; s < share.numbers.size(); ++s) {
      const auto number = static_cast<size_t>(share.numbers[s]);
      treated.offloaded[number] = made.offloaded[s];
      const auto first = static_cast<size_t>(cut.first_block[number]);
      for (size_t i = 0; i < made.again[s].size(); ++i)
        treated.checkpointed[first + i] = made.again[s][i];
    }
  }
  treated.bytes = std::move(all);
  return treated;
}

}  // namespace muster::train::detail
