// Adam. Source: Kingma & Ba 2015, algorithm 1; amsgrad: Reddi, Kale & Kumar 2018, algorithm 2 with
// torch.optim's bias correction.
#include "muster/optim/adam_rule.h"

namespace muster::optim {
namespace {

using detail::AdamOptions;

constexpr Param kAdamParams[] = {
    param<&AdamOptions::beta1>("beta1", "decay of the mean of gradients"),
    param<&AdamOptions::beta2>("beta2", "decay of the mean of squared gradients"),
    param<&AdamOptions::eps>("eps", "added to the root, against division by zero"),
    param<&AdamOptions::weight_decay>("weight_decay", "L2 penalty, added to the gradient"),
    param<&AdamOptions::amsgrad>("amsgrad", "divide by the greatest mean of squares so far"),
    param<&AdamOptions::maximize>("maximize", "ascend instead of descend")};

std::unique_ptr<Optimizer> make_adam(tensor::NamedTensorList parameters,
                                     double lr,
                                     const ParamValues& params) {
  return detail::make_adam(std::move(parameters),
                           lr,
                           resolve_params<AdamOptions>(kAdamParams, params, "optimizer adam"),
                           detail::WeightDecay::kCoupled,
                           "optimizer adam");
}

}  // namespace

extern constinit const OptimizerEntry adam_entry{
    "adam",
    "steps scaled by running means of gradients and their squares",
    1e-3,
    kAdamParams,
    &make_adam};

}  // namespace muster::optim
