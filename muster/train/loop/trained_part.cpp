#include "muster/train/loop/trained_part.h"

#include <utility>

#include "muster/train/plan/fit_plan.h"

namespace muster::train::detail {

TrainedPart::TrainedPart(std::string name,
                         const FitPlan& plan,
                         std::shared_ptr<torch::nn::Module> module,
                         const distributed::ProcessGroup& group,
                         ParameterRules rules)
    : name_(std::move(name)), scaler_(plan.precision, group) {
  for (const at::Tensor& parameter : module->parameters()) {
    if (parameter.requires_grad()) trained_.push_back(parameter);
  }
  strategy_ = strategies()
                  .at(plan.strategy_name)
                  .make({.plan = plan,
                         .module = std::move(module),
                         .group = group,
                         .rules = std::move(rules)},
                        plan.strategy_params);
}

void TrainedPart::require_gradients(bool on) {
  for (at::Tensor& parameter : trained_) parameter.set_requires_grad(on);
}

tensor::NamedTensorList TrainedPart::state() {
  tensor::NamedTensorList state = strategy_->optimizer_state();
  if (!name_.empty()) {
    for (auto& [name, tensor] : state) name.insert(0, name_ + '/');
  }
  return state;
}

void TrainedPart::load_state(const tensor::NamedTensorList& state) {
  if (name_.empty()) return strategy_->load_optimizer_state(state);
  tensor::NamedTensorList own;
  const std::string prefix = name_ + '/';
  for (const auto& [name, tensor] : state) {
    if (name.starts_with(prefix)) own.emplace_back(name.substr(prefix.size()), tensor);
  }
  strategy_->load_optimizer_state(own);
}

}  // namespace muster::train::detail
