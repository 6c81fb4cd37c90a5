#include "muster/train/loop/start_checks.h"

#include <memory>
#include <string>
#include <string_view>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/memory/guard/guard.h"
#include "muster/train/checkpoints/model_state.h"
#include "muster/train/loop/parameter_groups.h"
#include "muster/train/loop/run_start.h"
#include "muster/train/loop/task_parts.h"
#include "muster/train/replicas/strategy.h"

namespace muster::train {
namespace {

constexpr std::string_view kRecomputeFlag = "--activation-checkpointing";

}  // namespace

std::vector<TaskPart> parts_to_train(Task& task, const FitPlan& plan) {
  std::vector<TaskPart> parts = task.parts();
  if (parts.empty()) parts.push_back({"", task.module()});
  const StrategyEntry& strategy = strategies().at(plan.strategy_name);
  if (!strategy.takes_whole_task || (parts.size() == 1 && parts[0].module == task.module()))
    return parts;
  throw usage_error({.refused = concat("--strategy ", strategy.name),
                     .rule = "what is divided among the ranks is the whole module",
                     .value = concat("task ", task.name(), " has parts of its own"),
                     .hint = "take --strategy ddp or zero2"});
}

parallel::BlockRule recompute_rule(const FitPlan& plan) {
  return parallel::parse_block_rule(plan.options.activation_checkpointing, kRecomputeFlag);
}

std::vector<tensor::Unit> units_to_recompute(Task& task, const FitPlan& plan) {
  if (recompute_rule(plan).kind == parallel::BlockRule::Kind::kOff ||
      strategies().at(plan.strategy_name).recomputes_units)
    return {};
  if (recompute_rule(plan).is_of_pipeline())
    throw usage_error(
        {.refused = concat(kRecomputeFlag, ' ', plan.options.activation_checkpointing),
         .rule = "budgets of stages, and offload=, are those of a pipeline",
         .value = concat("strategy ", plan.strategy_name),
         .hint = "say budget:BYTES alone, or --strategy pipeline"});
  std::vector<tensor::Unit> units = tensor::units_of(*task.module());
  if (!units.empty()) return units;
  throw usage_error({.refused = concat(kRecomputeFlag, ' ', plan.options.activation_checkpointing),
                     .rule = "the model is made of parts, which can be run again",
                     .value = concat("task ", task.name(), " has none"),
                     .hint = "its module derives from tensor::HasUnits and calls its units by "
                             "tensor::call_unit()"});
}

void check_splits(Task& task, const FitPlan& plan) {
  if (plan.options.on_oom != "split") return;
  const std::string layer = memory::Guard::batch_layer(*task.module());
  if (layer.empty()) return;
  throw usage_error(
      {.refused = "--on-oom split",
       .rule = "smaller micro-batches change what a batch normalisation sees",
       .value = layer,
       .hint = "take --on-oom split-unequal, which has it see them, or a model without one"});
}

std::unique_ptr<Task> check_start(const TaskMaker& make,
                                  const FitPlan& plan,
                                  const std::optional<Checkpoint>& resume) {
  if (resume) check_limits(plan.options, *resume);
  std::unique_ptr<Task> task = make_seeded(make, plan.options.seed);
  check_task_alone(*task);
  if (resume) {
    check_task(*task, *resume);
    check_same_data(plan, *resume);
  }
  const ParameterGroups groups(*task, plan.options);
  groups.train_mode();  // frozen normalisations do not mind the size of a batch
  check_splits(*task, plan);
  const StrategyEntry& strategy = strategies().at(plan.strategy_name);
  for (const TaskPart& part : parts_to_train(*task, plan)) {
    groups.rules_of(*part.module, part.name);
    if (strategy.check_module != nullptr)
      strategy.check_module(
          *part.module,
          plan,
          plan.strategy_params,
          resume ? resume->loop.value(kStrategyKey, Json()) : plan.strategy_found);
  }
  units_to_recompute(*task, plan);
  if (!resume) return task;
  groups.check_resume(resume->loop.value("groups", Json()));
  match_model_state(*task->module(), resume->model);
  return task;
}

}  // namespace muster::train
