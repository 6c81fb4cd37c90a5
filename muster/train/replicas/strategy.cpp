#include "muster/train/replicas/strategy.h"

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/optim/clip.h"
#include "muster/train/plan/fit_plan.h"

namespace muster::train {

int64_t bucket_bytes_of(int64_t bucket_mb, std::string_view owner) {
  constexpr int64_t kMost = int64_t{1} << 20;
  if (bucket_mb >= 1 && bucket_mb <= kMost) return bucket_mb << 20;
  throw usage_error({.refused = concat(owner, ": bucket_mb"),
                     .rule = concat("from 1 to ", kMost),
                     .value = std::to_string(bucket_mb)});
}

double Strategy::clip_gradients(double max_norm) {
  // The gradients are averaged already: all ranks compute the same norm.
  return optim::clip_grad_norm(module()->parameters(), max_norm).item<double>();
}

void Strategy::load_optimizer_state(const tensor::NamedTensorList& state) {
  optimizer().load_state({state, {}});
}

std::unique_ptr<optim::Optimizer> make_optimizer(const FitPlan& plan,
                                                 const torch::nn::Module& module) {
  tensor::NamedTensorList parameters;
  for (const auto& item : module.named_parameters())
    parameters.emplace_back(item.key(), item.value());
  return optim::optimizers()
      .at(plan.optimizer_name)
      .make(std::move(parameters), plan.lr, plan.optimizer_params);
}

}  // namespace muster::train
