// Adam with decoupled weight decay. Source: Loshchilov & Hutter 2019, algorithm 2.
#include "muster/optim/adam_rule.h"

namespace muster::optim {
namespace {

struct AdamwOptions : detail::AdamOptions {
  AdamwOptions() { weight_decay = 0.01; }
};

constexpr Param kAdamwParams[] = {
    param<&AdamwOptions::beta1>("beta1", "decay of the mean of gradients"),
    param<&AdamwOptions::beta2>("beta2", "decay of the mean of squared gradients"),
    param<&AdamwOptions::eps>("eps", "added to the root, against division by zero"),
    param<&AdamwOptions::weight_decay>("weight_decay", "share of lr by which weights shrink"),
    param<&AdamwOptions::amsgrad>("amsgrad", "divide by the greatest mean of squares so far"),
    param<&AdamwOptions::maximize>("maximize", "ascend instead of descend")};

std::unique_ptr<Optimizer> make_adamw(tensor::NamedTensorList parameters,
                                      double lr,
                                      const ParamValues& params) {
  return detail::make_adam(std::move(parameters),
                           lr,
                           resolve_params<AdamwOptions>(kAdamwParams, params, "optimizer adamw"),
                           detail::WeightDecay::kDecoupled,
                           "optimizer adamw");
}

}  // namespace

extern constinit const OptimizerEntry adamw_entry{
    "adamw", "Adam with decoupled weight decay", 1e-3, kAdamwParams, &make_adamw};

}  // namespace muster::optim
