#include "muster/train/replicas/strategy.h"

#include <utility>
#include <vector>

#include <ATen/ops/ones.h>
#include <c10/core/GradMode.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/optim/clip.h"
#include "muster/optim/grouped_optimizer.h"
#include "muster/train/plan/fit_plan.h"

namespace muster::train {

const StrategyEntry& strategy_named(std::string_view name) {
  for (const StrategyEntry* entry : strategies()) {
    if (entry->also_called.empty() || entry->also_called != name) continue;
    throw usage_error({.refused = concat("unknown strategy \"", name, "\""),
                       .hint = concat("it is \"", entry->name, "\" here: ", entry->help)});
  }
  return strategies().at(name);
}

int64_t bucket_bytes_of(int64_t bucket_mb, std::string_view owner) {
  constexpr int64_t kMost = int64_t{1} << 20;
  if (bucket_mb >= 1 && bucket_mb <= kMost) return bucket_mb << 20;
  throw usage_error({.refused = concat(owner, ": bucket_mb"),
                     .rule = concat("from 1 to ", kMost),
                     .value = std::to_string(bucket_mb)});
}

at::Tensor Strategy::clip_gradients(double max_norm) {
  // The gradients are averaged already: all ranks compute the same norm.
  return optim::clip_grad_norm(module()->parameters(), max_norm);
}

void Strategy::clip_gradient_values(double limit) {
  // Each rank bounds what its optimizer sees: all gradients, or the pieces of its shards.
  optim::clip_grad_value(optimizer().parameters(), limit);
}

std::vector<WeighedResult> Strategy::evaluate(const BatchToCut& batch) {
  return {{batch.pass(batch.batch), batch.weight(batch.batch)}};
}

void Strategy::load_optimizer_state(const tensor::NamedTensorList& state) {
  optimizer().load_state({state, {}});
}

void Strategy::load_weights(const std::vector<tensor::LoadedTensor>& tensors) {
  const c10::NoGradGuard no_grad;
  for (const auto& [name, own, saved] : tensors) own.copy_(saved);
}

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

std::unique_ptr<optim::Optimizer> make_optimizer(const StrategyRequest& request) {
  tensor::NamedTensorList parameters;
  for (const auto& item : request.module->named_parameters())
    parameters.emplace_back(item.key(), item.value());
  return make_optimizer(request.plan, request.rules, std::move(parameters));
}

std::unique_ptr<optim::Optimizer> make_optimizer(const FitPlan& plan,
                                                 const ParameterRules& rules,
                                                 tensor::NamedTensorList parameters) {
  const optim::OptimizerEntry& entry = optim::optimizers().at(plan.optimizer_name);
  if (rules.empty() || parameters.empty())
    return entry.make(std::move(parameters), plan.lr, plan.optimizer_params);
  std::map<ParameterRule, tensor::NamedTensorList> by_rule;
  for (auto& named : parameters) {
    const auto rule = rules.find(named.first);
    by_rule[rule == rules.end() ? ParameterRule() : rule->second].push_back(std::move(named));
  }
  std::vector<optim::OptimizerGroup> groups;
  for (auto& [rule, own] : by_rule)
    groups.push_back({std::move(own), rule.lr_factor, rule.weight_decay});
  return optim::make_grouped(entry, std::move(groups), plan.lr, plan.optimizer_params);
}

void set_most_momentum(const FitPlan& plan, optim::Optimizer& optimizer) {
  if (plan.most_momentum > 0 && optimizer.momentum()) optimizer.set_momentum(plan.most_momentum);
}

}  // namespace muster::train
