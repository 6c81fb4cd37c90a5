#include "muster/train/replicas/pipeline_cut.h"

#include <algorithm>
#include <functional>
#include <mutex>
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
#include "muster/tensor/unit_call.h"
#include "muster/train/plan/fit_plan.h"
#include "muster/train/replicas/chain_calls.h"

namespace muster::train::detail {
namespace {

using parallel::Block;
using parallel::BlockBytes;
using parallel::Tensors;

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

/// A generator as it was, when this goes.
class GeneratorAsItWas {
 public:
  explicit GeneratorAsItWas(at::Generator generator) : generator_(std::move(generator)) {
    const std::lock_guard lock(generator_.mutex());
    state_ = generator_.get_state();
  }
  ~GeneratorAsItWas() {
    const std::lock_guard lock(generator_.mutex());
    generator_.set_state(state_);
  }
  GeneratorAsItWas(const GeneratorAsItWas&) = delete;
  GeneratorAsItWas& operator=(const GeneratorAsItWas&) = delete;

 private:
  at::Generator generator_;
  at::Tensor state_;
};

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
std::string from_first_rank(const distributed::ProcessGroup& group,
                            std::string_view owner,
                            const std::function<std::string()>& find) {
  if (group.world_size() == 1) return find();
  std::string found;
  std::exception_ptr failure;
  if (group.rank() == 0) {
    try {
      found = concat('+', find());
    } catch (const std::exception& error) {
      failure = std::current_exception();
      found = concat('-', error.what());
    }
  }
  found = group.broadcast_text(found);
  if (failure) std::rethrow_exception(failure);
  if (found[0] == '-') {
    throw environment_error({.refused = std::string(owner),
                             .rule = "rank 0 measures the units",
                             .value = found.substr(1)});
  }
  return found.substr(1);
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

/// By rank of a pipeline, the bytes that it may hold on its device, which has the whole module now.
/// Nothing on the CPU, whose memory the ranks share. Collective.
std::vector<double> room_of_ranks(const StrategyRequest& request, int64_t ranks) {
  if (request.device.is_cpu()) return {};
  auto free = static_cast<double>(tensor::free_bytes_of(request.device));
  for (const auto& tensors : {request.module->parameters(), request.module->buffers()})
    for (const at::Tensor& tensor : tensors) free += static_cast<double>(tensor.nbytes());
  std::vector<double> room(static_cast<size_t>(ranks), free);
  int64_t rank = 0;
  for (const std::string& theirs : request.group.all_gather_text(shortest(free))) {
    double& least = room[static_cast<size_t>(rank++ % ranks)];
    least = std::min(least, to_double(theirs).value_or(free));
  }
  return room;
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
        calls_(names_of(blocks)),
        rows_(std::max<int64_t>(1, request.plan.batch_per_rank / options.micro_batches)) {}

  /// With which a step is shortest, of those with which ranks have room enough, if there are such.
  pipeline::Split split(const std::vector<double>& room) const;
  /// A rank's units within a budget of bytes, all micro-batches together that its schedule has in
  /// flight there.
  std::vector<bool> checkpoints(const parallel::BlockRule& budget,
                                const pipeline::Split& first_block) const;

 private:
  StepResult pass() const { return request_.example(rows_); }
  std::vector<BlockBytes> bytes() const;

  const std::vector<Block>& blocks_;
  const StrategyRequest& request_;
  const PipelineStrategyOptions& options_;
  int64_t ranks_;
  ChainCalls calls_;
  int64_t rows_;  // of a micro-batch
};

pipeline::Split Measurements::split(const std::vector<double>& room) const {
  const GeneratorAsItWas generator(request_.generator);
  const std::vector<pipeline::BlockCosts> costs = parallel::measure_blocks(
      blocks_,
      {.inputs = calls_.inputs_of([&] { return pass(); }), .count = static_cast<double>(rows_)},
      [&](const Tensors& outputs, const Tensors&) {
        return calls_.with_outputs(outputs, [&] { return pass(); }).loss;
      },
      request_.device,
      {.warm_up = 1,
       .repeats = 3,
       .threads_per_rank = at::get_num_threads(),
       .bytes_beside_parameter = 1 + state_bytes_per_byte(request_.plan)});
  const auto choose = [&](const std::vector<double>& memory_bytes) {
    return pipeline::choose_plan([&](int64_t) { return costs; },
                                 {.ranks = ranks_,
                                  .schedules = {options_.schedule},
                                  .micro_batches = {options_.micro_batches}},
                                 {.memory_bytes = memory_bytes});
  };
  std::optional<pipeline::PipelinePlan> plan = choose(room);
  if (!plan) plan = choose({});
  return plan.value().partition.first_block;
}

std::vector<BlockBytes> Measurements::bytes() const {
  const GeneratorAsItWas generator(request_.generator);
  Tensors x = calls_.inputs_of([&] { return pass(); });
  std::vector<BlockBytes> bytes;
  for (const Block& block : blocks_) {
    const parallel::RunState state(x, {{request_.generator}});
    parallel::BlockMeter meter;
    at::Tensor made;
    parallel::require_one(x);
    state.run_in(parallel::tensors_of(parallel::buffers_of(block)), [&] {
      const bool needs_gradient = !bytes.empty() && x[0].is_floating_point();
      const at::Tensor input = x[0].detach().requires_grad_(needs_gradient);
      made = meter.call([&](const at::Tensor& one) { return block.forward({one}).at(0); }, input);
    });
    bytes.push_back(meter.blocks()[0]);
    x = {made.detach()};
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
    int64_t in_flight = 1;
    for (const int64_t stage : lists.placement.stages_of(rank)) {
      in_flight = std::max(in_flight, in_flight_of(stage, lists));
      for (size_t block = 0; block < blocks_.size(); ++block) {
        if (stage_of(block, first_block) != stage) continue;
        mine.push_back(block);
        theirs.push_back(all[block]);
      }
    }
    const std::vector<bool> chosen = parallel::blocks_by_rule(budget, theirs, in_flight);
    for (size_t i = 0; i < mine.size(); ++i) again[mine[i]] = chosen[i];
  }
  return again;
}

std::vector<bool> chosen_checkpoints(const PipelineCut& cut,
                                     const Measurements& measured,
                                     const StrategyRequest& request,
                                     std::string_view owner) {
  using Kind = parallel::BlockRule::Kind;
  const auto rule = parallel::parse_block_rule(request.plan.options.activation_checkpointing,
                                               "--activation-checkpointing");
  if (rule.kind == Kind::kOff) return {};
  if (rule.kind != Kind::kBudget)
    return parallel::blocks_by_rule(rule, std::vector<BlockBytes>(cut.blocks.size()));
  const std::string chosen = from_first_rank(request.group, owner, [&] {
    std::string text;
    for (const bool again : measured.checkpoints(rule, cut.first_block)) text += again ? '1' : '0';
    return text;
  });
  std::vector<bool> again;
  for (const char c : chosen) again.push_back(c == '1');
  return again;
}

}  // namespace

pipeline::Split split_from(const std::string& text, std::string_view owner) {
  pipeline::Split first_block;
  for (const std::string& part : split(text, '/')) {
    const auto number = to_int(part);
    if (!number || *number < 0) {
      throw usage_error({.refused = concat(owner, ": split"),
                         .rule = "auto, or by stage the number of the unit that it begins with, as "
                                 "in 0/3/5",
                         .value = text});
    }
    first_block.push_back(*number);
  }
  return first_block;
}

std::string text_of_split(const pipeline::Split& first_block) {
  std::vector<std::string> numbers;
  for (const int64_t number : first_block) numbers.push_back(std::to_string(number));
  return join(numbers, "/");
}

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

std::vector<Block> blocks_of(const StrategyRequest& request, std::string_view owner) {
  std::vector<tensor::ChainedUnit> chain = tensor::chain_of(*request.module);
  if (chain.empty()) {
    throw usage_error(
        {.refused = std::string(owner),
         .rule = "the model is a row of units, between which it can be cut",
         .value = "one that is not",
         .hint = "a module says so by tensor::HasUnits::chain(), as all of the zoo; or take "
                 "--strategy fsdp"});
  }
  std::vector<Block> blocks;
  for (tensor::ChainedUnit& unit : chain) {
    blocks.push_back({.name = std::move(unit.name),
                      .modules = std::move(unit.modules),
                      .forward = std::move(unit.forward),
                      .parameters = std::move(unit.parameters),
                      .generators = {request.generator}});
  }
  require_parameters_in_units(*request.module, blocks, owner);
  return blocks;
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
  if (split == kMeasuredSplit) {
    cut.is_measured = true;
    const std::vector<double> room = room_of_ranks(request, ranks);
    split =
        from_first_rank(request.group, owner, [&] { return text_of_split(measured.split(room)); });
  }
  cut.first_block = split_from(split, owner);
  cut.checkpointed = chosen_checkpoints(cut, measured, request, owner);
  return cut;
}

}  // namespace muster::train::detail
