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
// So many are looked at one by one: all of twelve units in four stages, of eighteen, too.
constexpr int64_t kMostCuts = 1'000;

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

/// What to do about a budget that is too small. `said`: the rule as it was typed, of which all but the
/// bytes stays.
std::string budget_hint(const std::vector<BudgetShare>& shares,
                        const parallel::BlockRule& budget,
                        const std::string& said,
                        bool offloads,
                        bool may_offload) {
  const bool of_stages = !budget.stage_budgets.empty();
  const std::string least = least_rule(shares, of_stages, offloads);
  const std::string with_host = least_rule(shares, of_stages, may_offload);
  const size_t behind = said.find(',');
  return concat("take ",
                least,
                behind != std::string::npos ? said.substr(behind)
                : offloads || !may_offload  ? ""
                                            : ",offload=off",
                " or more, ",
                with_host != least ? concat(with_host, " with activations on the host, ") : "",
                "or a smaller batch");
}

}  // namespace

const std::vector<BlockBytes>& PipelineMeasurements::bytes(int64_t micro_batches) {
  const auto known = bytes_.find(micro_batches);
  if (known != bytes_.end()) return known->second;
  std::vector<BlockBytes> all = weigh(micro_batches);
  const std::vector<pipeline::BlockCosts>& times = costs(micro_batches);
  for (size_t block = 0; block < all.size(); ++block) all[block].cost = times[block].forward_s;
  return bytes_[micro_batches] = std::move(all);
}

std::vector<BlockBytes> PipelineMeasurements::weigh(int64_t micro_batches) const {
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
double PipelineMeasurements::offload_bytes_per_s(const parallel::BlockRule& budget) {
  if (request_.device.is_cpu()) return 0;
  if (budget.offload_bytes_per_s) return static_cast<double>(*budget.offload_bytes_per_s);
  if (!host_bytes_per_s_) host_bytes_per_s_ = measured_bytes_per_s();
  return *host_bytes_per_s_;
}

double PipelineMeasurements::measured_bytes_per_s() const {
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

pipeline::Split PipelineMeasurements::cut_within(const parallel::BlockRule& budget,
                                                 const PipelineCut& cut,
                                                 const std::vector<double>& room) {
  const auto stages = std::ssize(cut.first_block);
  const bool is_of_others =
      !budget.stage_budgets.empty() && budget.stage_budgets.size() != cut.first_block.size();
  const bool are_many = count_of_cuts(std::ssize(blocks_), stages, kMostCuts + 1) > kMostCuts;
  if (is_of_others || are_many || stages == 1) return cut.first_block;
  const pipeline::PipelineSizes sizes{
      .stages = stages, .ranks = ranks_, .micro_batches = cut.micro_batches};
  const auto lists = pipeline::make_schedule(cut.schedule, sizes).lists;
  UnitCosts units{.plain = costs(cut.micro_batches),
                  .bytes = bytes(cut.micro_batches),
                  .offload_bytes_per_s = offload_bytes_per_s(budget)};
  const auto here =
      treatment_of(shares_of(budget, cut.first_block, lists, units.bytes), cut.first_block, units);
  // Where nothing is treated, no other cut is faster.
  if (here && !here->is_any() && !(cut.times_room > 1)) return cut.first_block;
  units.again = measure(cut.micro_batches, std::vector<bool>(blocks_.size(), true));
  CutWithin best = best_cut_within(budget, cut.schedule, sizes, units, room);
  // Of stages nobody can tell which budget is to grow: the error is of the cut that is best without.
  if (best.share_bytes.empty())
    return budget.stage_budgets.empty() ? best.first_block : cut.first_block;
  cut_within_ = std::move(best);
  return cut_within_->first_block;
}

PipelineMeasurements::Treated PipelineMeasurements::within(const parallel::BlockRule& budget,
                                                           const PipelineCut& cut) {
  const pipeline::PipelineSizes sizes{
      .stages = std::ssize(cut.first_block), .ranks = ranks_, .micro_batches = cut.micro_batches};
  // Of a schedule that was chosen: how many stages it has was not known before.
  require_stage_budgets(request_.plan.options.activation_checkpointing,
                        {std::ssize(cut.first_block)});
  const auto lists = pipeline::make_schedule(cut.schedule, sizes).lists;
  const std::vector<BlockBytes>& all = bytes(cut.micro_batches);
  const double rate = offload_bytes_per_s(budget);
  UnitTreatment treatment(blocks_.size(), cut.first_block.size());
  const bool has_replicas = request_.group.world_size() > ranks_;
  std::vector<BudgetShare> shares = shares_of(budget, cut.first_block, lists, all);
  if (cut_within_ && cut_within_->first_block == cut.first_block)
    for (size_t i = 0; i < shares.size(); ++i) shares[i].bytes = cut_within_->share_bytes[i];
  const bool may_offload = !request_.device.is_cpu();
  for (const BudgetShare& share : shares) {
    const auto made = parallel::treatment_within(
        share.stages, share.bytes, rate, stages_text(share.numbers, share.rank, has_replicas), [&] {
          return budget_hint(shares,
                             budget,
                             request_.plan.options.activation_checkpointing,
                             rate > 0,
                             may_offload);
        });
    treatment.take(share, cut.first_block, made);
  }
  return {.checkpointed = std::move(treatment.checkpointed),
          .offloaded = std::move(treatment.offloaded),
          .bytes = all,
          .offload_bytes_per_s = rate};
}

}  // namespace muster::train::detail
