#include "muster/train/replicas/pipeline_cut.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>

#include "muster/base/text.h"
#include "muster/parallel/activations/block_choice.h"
#include "muster/parallel/activations/blocks.h"
#include "muster/parallel/activations/run_state.h"
#include "muster/parallel/pipeline/measure.h"
#include "muster/pipeline/partition/plan.h"
#include "muster/pipeline/schedule/schedule.h"
#include "muster/tensor/device/device_memory.h"
#include "muster/tensor/device/generators.h"
#include "muster/train/plan/fit_plan.h"
#include "muster/train/plan/precision.h"
#include "muster/train/replicas/chain_calls.h"
#include "muster/train/replicas/first_rank.h"

namespace muster::train::detail {
namespace {

using parallel::Block;
using parallel::BlockBytes;
using parallel::Tensors;

constexpr uint64_t kExampleSeed = 1;

// Of what is free on a device, what a cut may take: pieces that lie unused, tensors that wait to be
// fetched and what an evaluation needs are not counted.
constexpr double kShareOfRoom = 0.95;

// Of Strategy::record().
constexpr const char* kRanksKey = "ranks";
constexpr const char* kScheduleKey = "schedule";
constexpr const char* kSplitKey = "split";

/// Each parameter is on the rank of its unit: there is no place for others.
void require_parameters_in_units(const torch::nn::Module& module,
                                 const std::vector<Block>& blocks,
                                 std::string_view owner) {
  std::set<const void*> in_units;
  for (const Block& block : blocks) {
    for (const auto& [name, parameter] : parallel::parameters_of(block))
      in_units.insert(parameter.unsafeGetTensorImpl());
  }
  for (const auto& item : module.named_parameters()) {
    if (in_units.contains(item.value().unsafeGetTensorImpl())) continue;
    throw usage_error({.refused = std::string(owner),
                       .rule = "every parameter of the model is one of its units'",
                       .value = item.key(),
                       .hint = "name its module, or itself, in a unit of chain()"});
  }
}

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

/// What rank 0 finds: what is measured differs from rank to rank, and what follows must not.
std::string found_by_first_rank(const distributed::ProcessGroup& group,
                                const std::function<std::string()>& find) {
  std::string found;
  on_first_rank(group, [&] { found = find(); });
  return group.world_size() > 1 ? group.broadcast_text(found) : found;
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

/// By rank of a pipeline, the bytes that it may hold on its device: its share of what is free
/// among the ranks of this machine that have the same device, and what of the module is there now.
/// Nothing on the CPU, whose memory the ranks share. Collective.
std::vector<double> room_of_ranks(const StrategyRequest& request, int64_t ranks) {
  if (request.device.is_cpu()) return {};
  const auto sharing = std::ranges::count(request.plan.machine_devices, request.device);
  double free = static_cast<double>(tensor::free_bytes_of(request.device)) /
                static_cast<double>(std::max<int64_t>(1, sharing));
  for (const auto& tensors : {request.module->parameters(), request.module->buffers()})
    for (const at::Tensor& tensor : tensors)
      if (tensor.device() == request.device) free += static_cast<double>(tensor.nbytes());
  free *= kShareOfRoom;
  std::vector<double> room(static_cast<size_t>(ranks), free);
  int64_t rank = 0;
  for (const std::string& theirs : request.group.all_gather_text(shortest(free))) {
    double& least = room[static_cast<size_t>(rank++ % ranks)];
    least = std::min(least, to_double(theirs).value_or(free));
  }
  return room;
}

/// Throws a usage error, which lists the units, unless each stage has some.
void require_stages(const PipelineCut& cut, std::string_view owner) {
  if (cut.first_block.back() < std::ssize(cut.blocks)) return;
  std::vector<std::string> units;
  for (size_t i = 0; i < cut.blocks.size(); ++i)
    units.push_back(concat(i, ' ', cut.blocks[i].name));
  throw usage_error({.refused = concat(owner, ": split"),
                     .rule = concat("the units are ", join(units, ", ")),
                     .value = text_of_split(cut.first_block)});
}

/// Throws a usage error unless there is a unit for each stage that the schedule makes.
void require_units(const std::vector<Block>& blocks,
                   const pipeline::ScheduleEntry& schedule,
                   int64_t ranks,
                   std::string_view owner) {
  if (std::ssize(blocks) >= ranks * schedule.stages_per_rank) return;
  throw usage_error({.refused = std::string(owner),
                     .rule = concat("the model has a unit for each of the ",
                                    ranks * schedule.stages_per_rank,
                                    " stages of ",
                                    schedule.name),
                     .value = concat(blocks.size(), blocks.size() == 1 ? " unit" : " units"),
                     .hint = concat(schedule.stages_per_rank > 1
                                        ? "take a schedule of one stage a rank, as 1f1b is, or "
                                        : "take ",
                                    "fewer ranks, or several pipelines: pipeline:ranks=N")});
}

/// What the units of a module cost: measured on this rank's device, one unit after the other, so that
/// no device has to hold more than one at work.
class Measurements {
 public:
  Measurements(const std::vector<Block>& blocks,
               const StrategyRequest& request,
               const PipelineStrategyOptions& options,
               int64_t ranks)
      : blocks_(blocks),
        request_(request),
        options_(options),
        ranks_(ranks),
        calls_(names_of(blocks), request.generator),
        rows_(std::max(
            std::min<int64_t>(2, request.plan.batch_per_rank),
            (request.plan.batch_per_rank + options.micro_batches - 1) / options.micro_batches)) {}

  struct Found {
    pipeline::Split first_block;
    double times_room = 1;  // of PipelineCut
  };
  /// With which a step is shortest, of those for which ranks have room enough; if there are none, of
  /// those that want least more than there is (within 1 %).
  Found split(const std::vector<double>& room) const;
  /// A rank's units within a budget of bytes, all micro-batches together that its schedule has in
  /// flight there.
  std::vector<bool> checkpoints(const parallel::BlockRule& budget,
                                const pipeline::Split& first_block) const;

 private:
  std::vector<BlockBytes> bytes() const;

  const std::vector<Block>& blocks_;
  const StrategyRequest& request_;
  const PipelineStrategyOptions& options_;
  int64_t ranks_;
  ChainCalls calls_;
  int64_t rows_;  // of a micro-batch
};

Measurements::Found Measurements::split(const std::vector<double>& room) const {
  const tensor::GeneratorAsItWas generator(request_.generator);
  const PrecisionGuard guard(request_.plan.precision.kind, request_.device);
  const Pass pass = request_.example(rows_);
  const std::vector<pipeline::BlockCosts> costs = parallel::measure_blocks(
      blocks_,
      {.inputs = calls_.inputs_of(pass, kExampleSeed), .count = static_cast<double>(rows_)},
      [&](const Tensors& outputs, const Tensors&) {
        return calls_.with_outputs(outputs, pass, kExampleSeed).loss;
      },
      request_.device,
      {.warm_up = 1,
       .repeats = 3,
       .threads_per_rank = at::get_num_threads(),
       .bytes_beside_parameter = 1 + state_bytes_per_byte(request_.plan)});
  const auto within = [&](std::vector<double> memory_bytes, double times) {
    for (double& bytes : memory_bytes) bytes *= times;
    return pipeline::choose_plan([&](int64_t) { return costs; },
                                 {.ranks = ranks_,
                                  .schedules = {options_.schedule},
                                  .micro_batches = {options_.micro_batches}},
                                 {.memory_bytes = memory_bytes});
  };
  if (const auto plan = within(room, 1)) return {plan->partition.first_block};
  pipeline::Partition least = within({}, 1).value().partition;
  double fits = 1, too_small = 1;  // these times the room
  for (size_t rank = 0; rank < room.size(); ++rank)
    fits = std::max(fits, least.rank_bytes[rank] / std::max(1.0, room[rank]));
  while (fits > 1.01 * too_small) {
    const double between = std::sqrt(fits * too_small);
    if (const auto plan = within(room, between)) {
      least = plan->partition;
      fits = between;
    } else {
      too_small = between;
    }
  }
  return {least.first_block, fits};
}

std::vector<BlockBytes> Measurements::bytes() const {
  const tensor::GeneratorAsItWas generator(request_.generator);
  const PrecisionGuard guard(request_.plan.precision.kind, request_.device);
  Tensors x = calls_.inputs_of(request_.example(rows_), kExampleSeed);
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

std::vector<bool> Measurements::checkpoints(const parallel::BlockRule& budget,
                                            const pipeline::Split& first_block) const {
  const pipeline::PipelineSizes sizes{
      .stages = std::ssize(first_block), .ranks = ranks_, .micro_batches = options_.micro_batches};
  const auto lists = pipeline::make_schedule(options_.schedule, sizes).lists;
  const std::vector<BlockBytes> all = bytes();
  std::vector<bool> again(blocks_.size());
  for (int64_t rank = 0; rank < ranks_; ++rank) {
    std::vector<size_t> mine;
    std::vector<BlockBytes> theirs;
    int64_t in_flight = 1, ends = 0;
    for (const int64_t stage : lists.placement.stages_of(rank)) {
      in_flight = std::max(in_flight, in_flight_of(stage, lists));
      const size_t first = theirs.size();
      for (size_t block = 0; block < blocks_.size(); ++block) {
        if (stage_of(block, first_block) != stage) continue;
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

std::vector<bool> chosen_checkpoints(const PipelineCut& cut,
                                     const Measurements& measured,
                                     const StrategyRequest& request) {
  using Kind = parallel::BlockRule::Kind;
  const auto rule = parallel::parse_block_rule(request.plan.options.activation_checkpointing,
                                               "--activation-checkpointing");
  if (rule.kind == Kind::kOff) return {};
  if (rule.kind != Kind::kBudget)
    return parallel::blocks_by_rule(rule, std::vector<BlockBytes>(cut.blocks.size()));
  const std::string chosen = found_by_first_rank(request.group, [&] {
    std::string text;
    for (const bool again : measured.checkpoints(rule, cut.first_block)) text += again ? '1' : '0';
    return text;
  });
  std::vector<bool> again;
  for (const char c : chosen) again.push_back(c == '1');
  return again;
}

}  // namespace

int64_t stage_of(size_t block, const pipeline::Split& first_block) {
  const auto next = std::ranges::upper_bound(first_block, static_cast<int64_t>(block));
  return next - first_block.begin() - 1;
}

std::vector<std::string> names_of(const std::vector<Block>& blocks) {
  std::vector<std::string> names;
  for (const Block& block : blocks) names.push_back(block.name);
  return names;
}

Json record_of(const PipelineCut& cut, const PipelineStrategyOptions& options, int64_t ranks) {
  return {{kRanksKey, ranks},
          {kScheduleKey, options.schedule},
          {kSplitKey, text_of_split(cut.first_block)}};
}

std::vector<Block> blocks_of(torch::nn::Module& module,
                             const std::vector<at::Generator>& generators,
                             std::string_view owner) {
  std::vector<Block> blocks = parallel::blocks_of_chain(module, generators);
  if (blocks.empty()) {
    throw usage_error(
        {.refused = std::string(owner),
         .rule = "the model is a row of units, between which it can be cut",
         .value = "one that is not",
         .hint = "a module says so by tensor::HasUnits::chain(), as all of the zoo; or take "
                 "--strategy fsdp"});
  }
  require_parameters_in_units(module, blocks, owner);
  return blocks;
}

void check_cut(std::vector<Block> blocks,
               const PipelineStrategyOptions& options,
               int64_t ranks,
               std::string_view owner) {
  const auto& schedule = pipeline::schedules().at(parse_spec(options.schedule).name);
  if (options.split == kMeasuredSplit) return require_units(blocks, schedule, ranks, owner);
  PipelineCut cut{.blocks = std::move(blocks)};
  cut.first_block = split_from(options.split, owner);
  require_stages(cut, owner);
}

PipelineCut cut_module(std::vector<Block> blocks,
                       const StrategyRequest& request,
                       const PipelineStrategyOptions& options,
                       int64_t ranks,
                       std::string_view owner) {
  PipelineCut cut{.blocks = std::move(blocks)};
  const Measurements measured(cut.blocks, request, options, ranks);
  const Json& before = request.record;
  std::string split = options.split;
  if (split == kMeasuredSplit && before.is_object() &&
      before.value(kRanksKey, int64_t{0}) == ranks &&
      before.value(kScheduleKey, std::string()) == options.schedule)
    split = before.value(kSplitKey, split);
  const auto& schedule = pipeline::schedules().at(parse_spec(options.schedule).name);
  if (split == kMeasuredSplit) require_units(cut.blocks, schedule, ranks, owner);
  if (split == kMeasuredSplit && ranks == 1 && schedule.stages_per_rank == 1) split = "0";
  if (split == kMeasuredSplit) {
    cut.is_measured = true;
    const std::vector<double> room = room_of_ranks(request, ranks);
    const std::string found = found_by_first_rank(request.group, [&] {
      const Measurements::Found first = measured.split(room);
      return concat(text_of_split(first.first_block), ' ', shortest(first.times_room));
    });
    const size_t space = found.find(' ');
    split = found.substr(0, space);
    cut.times_room = to_double(found.substr(space + 1)).value();
  }
  cut.first_block = split_from(split, owner);
  require_stages(cut, owner);
  cut.checkpointed = chosen_checkpoints(cut, measured, request);
  return cut;
}

}  // namespace muster::train::detail
