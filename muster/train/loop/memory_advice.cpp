#include "muster/train/loop/memory_advice.h"

#include <string_view>
#include <vector>

#include "muster/base/text.h"
#include "muster/optim/optimizer.h"
#include "muster/optim/schedule.h"
#include "muster/train/loop/resolve.h"
#include "muster/train/replicas/strategy.h"

namespace muster::train {
namespace {

using In = MemoryFailure::In;

const StrategyEntry& strategy_of(const FitPlan& plan) {
  return strategies().at(plan.strategy_name);
}

std::string with_last(const std::vector<std::string>& ways) {
  return concat(join(ways, ", "), ways.size() > 1 ? ", or " : " or ");
}

/// How a rank comes to have less of the model; empty: it cannot.
std::string smaller_part(const FitPlan& plan, const MemoryFailure& failure) {
  const StrategyEntry& strategy = strategy_of(plan);
  if (strategy.ranks_per_replica != nullptr)
    return failure.row && *failure.row <= plan.ranks_per_replica ? ""
                                                                 : "more stages on more devices";
  if (strategy.places_units) return "more devices";
  const bool splits = plan.options.on_oom != "fail";
  if (strategy.divides_model) return splits ? "more devices" : "--strategy fsdp or more devices";
  return splits ? "--strategy zero2 (or fsdp, without --on-oom) on several devices"
                : "--strategy zero2 or fsdp on several devices";
}

/// Blocks that run again keep less.
bool may_recompute(const FitPlan& plan, const MemoryFailure& failure) {
  return plan.options.activation_checkpointing == "off" && failure.has_units;
}

/// The run's schedule, which sets no momentum.
std::string schedule_without_momentum(const FitPlan& plan) {
  ParamValues params = plan.schedule_params;
  const optim::ScheduleEntry& entry = optim::schedules().at(plan.schedule_name);
  for (const auto& [name, value] : parse_param_values(entry.without_momentum)) params[name] = value;
  std::vector<std::string> words;
  for (const auto& [name, value] : params) words.push_back(concat(name, '=', value));
  return concat(entry.name, ':', join(words, ","));
}

/// Optimizers that keep less than the run's: those that keep nothing. Empty: it keeps nothing itself.
std::string smaller_state(const FitPlan& plan) {
  if (!optim::keeps_state(
          optim::optimizers().at(plan.optimizer_name), plan.optimizer_params, plan.most_momentum))
    return "";
  std::vector<std::string> without;
  for (const optim::OptimizerEntry* entry : optim::optimizers()) {
    if (entry->without_state.empty()) continue;
    without.push_back(concat(entry->name, ':', entry->without_state));
    const ParamValues params = parse_param_values(entry->without_state);
    if (optim::keeps_state(*entry, params, plan.most_momentum))
      without.back() += concat(" with --lr-schedule ", schedule_without_momentum(plan));
  }
  return concat("an optimizer with less state (--optimizer ",
                join(without, " or "),
                without.size() > 1 ? " have none)" : " has none)");
}

std::string smaller_steps(const FitPlan& plan, const MemoryFailure& failure) {
  const StrategyEntry& strategy = strategy_of(plan);
  std::vector<std::string> ways{
      "take a smaller --batch-size (with --accumulate-grad-batches for the same steps)"};
  if (strategy.with_smaller_pieces != nullptr) {
    const std::string spec = strategy.with_smaller_pieces(plan, plan.strategy_params);
    if (!spec.empty()) ways.push_back(concat("more micro-batches (--strategy ", spec, ')'));
  }
  if (failure.in == In::kStep && plan.options.on_oom == "fail" && may_split(plan.options, plan))
    ways.push_back(concat(
        "--on-oom split", failure.sees_batches ? "-unequal" : "", ", which does so by itself"));
  if (may_recompute(plan, failure)) ways.emplace_back("--activation-checkpointing blocks");
  if (plan.precision.kind == Precision::kFloat32) ways.emplace_back("--precision bf16-mixed");
  const std::string part = strategy.places_units ? smaller_part(plan, failure) : "more devices";
  return concat(with_last(ways), part.empty() ? "a device with more memory" : part);
}

/// What is left where no batch is to blame.
std::string smaller_weights(const FitPlan& plan, const MemoryFailure& failure) {
  std::vector<std::string> ways{"a smaller model"};
  if (std::string part = smaller_part(plan, failure); !part.empty())
    ways.push_back(std::move(part));
  if (may_recompute(plan, failure)) ways.emplace_back("--activation-checkpointing blocks");
  return concat("no batch size helps; take ", with_last(ways), "a device with more memory");
}

/// The same where the step's batches take room, too: all of them, until it is made.
std::string fewer_batches() {
  return "a step keeps all its batches on the device, so that it can be made again: take a smaller "
         "--batch-size, fewer --accumulate-grad-batches, or --on-oom fail; or a smaller model, or "
         "a device with more memory";
}

std::string smaller_update(const FitPlan& plan, const MemoryFailure& failure) {
  std::vector<std::string> ways;
  if (failure.is_room_in_batches) ways.emplace_back("a smaller --batch-size");
  if (std::string state = smaller_state(plan); !state.empty()) ways.push_back(std::move(state));
  if (plan.options.ema_decay > 0)
    ways.emplace_back("no --ema-decay, which keeps the weights twice");
  if (std::string part = smaller_part(plan, failure); !part.empty())
    ways.push_back(std::move(part));
  ways.emplace_back("a smaller model");
  return concat("it is the optimizer's step, ",
                failure.is_room_in_batches ? "beside the batches that wait"
                                           : "which no batch size makes smaller",
                ": take ",
                with_last(ways),
                "a device with more memory");
}

}  // namespace

std::string memory_advice(const FitPlan& plan, const MemoryFailure& failure) {
  if (failure.in == In::kUpdate) return smaller_update(plan, failure);
  if (failure.in == In::kSmallest)
    return failure.is_room_in_batches ? fewer_batches() : smaller_weights(plan, failure);
  // Where units are placed one by one, steps of them may have been measured at the start.
  if (failure.in == In::kStart && !strategy_of(plan).places_units)
    return smaller_weights(plan, failure);
  return smaller_steps(plan, failure);
}

}  // namespace muster::train
