#include "muster/train/loop/trained_part.h"

#include <utility>

#include "muster/base/text.h"
#include "muster/train/plan/fit_plan.h"

namespace muster::train::detail {
namespace {

/// Those whose names begin with `prefix`, without it.
tensor::NamedTensorList below(const std::string& prefix, const tensor::NamedTensorList& all) {
  tensor::NamedTensorList own;
  for (const auto& [name, tensor] : all) {
    if (name.starts_with(prefix)) own.emplace_back(name.substr(prefix.size()), tensor);
  }
  return own;
}

}  // namespace

TrainedPart::TrainedPart(std::string name, StrategyRequest request)
    : name_(std::move(name)), scaler_(request.plan.precision, request.group) {
  for (const at::Tensor& parameter : request.module->parameters()) {
    if (parameter.requires_grad()) trained_.push_back(parameter);
  }
  const FitPlan& plan = request.plan;
  strategy_ = strategies().at(plan.strategy_name).make(std::move(request), plan.strategy_params);
}

void TrainedPart::require_gradients(bool on) {
  for (at::Tensor& parameter : trained_) parameter.set_requires_grad(on);
}

tensor::NamedTensorList TrainedPart::state() { return named(strategy_->optimizer_state()); }

void TrainedPart::load_state(const tensor::NamedTensorList& state) {
  strategy_->load_optimizer_state(name_.empty() ? state : below(name_ + '/', state));
}

/// With the part's name before each.
tensor::NamedTensorList TrainedPart::named(tensor::NamedTensorList state) const {
  if (!name_.empty()) {
    for (auto& [name, tensor] : state) name.insert(0, name_ + '/');
  }
  return state;
}

tensor::NamedTensorList TrainedPart::hook_state(const distributed::ProcessGroup& group) {
  tensor::NamedTensorList all;
  for (const auto& [name, own] : strategy_->hook_state()) {
    const at::Tensor each = group.all_gather(own.to(group.device()));
    for (int64_t rank = 0; group.rank() == 0 && rank < group.world_size(); ++rank)
      all.emplace_back(concat("rank.", rank, '/', name), each[rank].cpu().clone());
  }
  return named(std::move(all));
}

void TrainedPart::load_hook_state(const tensor::NamedTensorList& state,
                                  const distributed::ProcessGroup& group,
                                  int64_t saved_ranks) {
  const tensor::NamedTensorList own = name_.empty() ? state : below(name_ + '/', state);
  const auto of_rank = [&](int64_t rank) { return below(concat("rank.", rank, '/'), own); };
  if (saved_ranks == group.world_size()) return strategy_->load_hook_state(of_rank(group.rank()));
  tensor::NamedTensorList mean = of_rank(0);
  for (auto& [name, tensor] : mean) tensor = tensor.clone();
  for (int64_t rank = 1; rank < saved_ranks; ++rank) {
    const tensor::NamedTensorList other = of_rank(rank);
    if (other.size() != mean.size()) return strategy_->load_hook_state({});
    for (size_t i = 0; i < mean.size(); ++i) {
      if (mean[i].second.is_floating_point()) mean[i].second.add_(other[i].second);
    }
  }
  for (auto& [name, tensor] : mean) {
    if (tensor.is_floating_point()) tensor.div_(saved_ranks);
  }
  strategy_->load_hook_state(mean);
}

}  // namespace muster::train::detail
