// Adam with decoupled weight decay. Source: Loshchilov & Hutter 2019, algorithm 2.
#include "muster/optim/adam_rule.h"

namespace muster::optim {
namespace {

/// Not derived from Adam's: a parameter's default is that of the struct whose member it is.
struct AdamwOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  bool amsgrad = false;
  bool maximize = false;
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
  const auto options = resolve_params<AdamwOptions>(kAdamwParams, params, "optimizer adamw");
  return detail::make_adam(std::move(parameters),
                           lr,
                           {.beta1 = options.beta1,
                            .beta2 = options.beta2,
                            .eps = options.eps,
                            .weight_decay = options.weight_decay,
                            .amsgrad = options.amsgrad,
                            .maximize = options.maximize},
                           detail::WeightDecay::kDecoupled,
                           "optimizer adamw");
}

}  // namespace

extern constinit const OptimizerEntry adamw_entry{
    "adamw", "Adam with decoupled weight decay", 1e-3, kAdamwParams, &make_adamw};

}  // namespace muster::optim
