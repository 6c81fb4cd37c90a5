#include "muster/optim/adam_rule.h"

#include <map>

#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <c10/core/GradMode.h>

#include "muster/base/text.h"

namespace muster::optim::detail {

AdamRule::AdamRule(tensor::NamedTensorList parameters,
                   double lr,
                   const AdamOptions& options,
                   WeightDecay decay)
    : Optimizer(std::move(parameters), lr),
      options_(options),
      decay_(decay),
      steps_(parameters_.size(), 0),
      mean_("exp_avg", parameters_.size()),
      square_("exp_avg_sq", parameters_.size()),
      max_square_("max_exp_avg_sq", parameters_.size()) {}

std::vector<at::Tensor> AdamRule::count_step(const ReadyList& ready) {
  // The kernels read one tensor per parameter, and most parameters have made equally many steps:
  // those share one.
  std::map<int64_t, at::Tensor> tensor_of;
  std::vector<at::Tensor> out;
  out.reserve(ready.indices.size());
  for (size_t k = 0; k < ready.indices.size(); ++k) {
    at::Tensor& tensor = tensor_of[++steps_[ready.indices[k]]];
    if (!tensor.defined())
      tensor = at::full({},
                        steps_[ready.indices[k]],
                        at::TensorOptions().dtype(at::kFloat).device(ready.parameters[k].device()));
    out.push_back(tensor);
  }
  return out;
}

void AdamRule::step() {
  const c10::NoGradGuard no_grad;
  const ReadyList ready = detail::ready(parameters_);
  if (ready.parameters.empty()) return;
  const std::vector<at::Tensor> counts = count_step(ready);
  const std::vector<at::Tensor> means = mean_.of(ready);
  const std::vector<at::Tensor> squares = square_.of(ready);
  std::vector<at::Tensor> max_squares;
  if (options_.amsgrad) max_squares = max_square_.of(ready);
  const auto fused = [&](auto&& kernel) {
    kernel(ready.parameters,
           ready.gradients,
           means,
           squares,
           max_squares,
           counts,
           lr(),
           options_.beta1,
           options_.beta2,
           options_.weight_decay,
           options_.eps,
           options_.amsgrad,
           options_.maximize);
  };
  if (decay_ == WeightDecay::kDecoupled) {
    fused([](const auto&... arguments) { at::_fused_adamw_(arguments...); });
  } else {
    fused([](const auto&... arguments) { at::_fused_adam_(arguments...); });
  }
}

tensor::NamedTensorList AdamRule::state() const {
  tensor::NamedTensorList out;
  mean_.save(parameters_, out);
  square_.save(parameters_, out);
  max_square_.save(parameters_, out);
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i] > 0)
      out.emplace_back("step/" + parameters_[i].first, at::full({}, steps_[i], at::kLong));
  }
  return out;
}

void AdamRule::load_state(const tensor::TensorFile& file) {
  const StateIndex state =
      index_state(file, parameters_, {mean_.name(), square_.name(), max_square_.name(), "step"});
  mean_.load(parameters_, state);
  square_.load(parameters_, state);
  max_square_.load(parameters_, state);
  for (size_t i = 0; i < steps_.size(); ++i) {
    const std::string& name = parameters_[i].first;
    const auto count = state.find("step/" + name);
    const bool complete = mean_[i].defined() == (count != state.end()) &&
                          mean_[i].defined() == square_[i].defined() &&
                          (!options_.amsgrad || mean_[i].defined() == max_square_[i].defined());
    if (!complete || (count != state.end() && count->second.numel() != 1)) {
      throw usage_error({.refused = "optimizer state of parameter " + name,
                         .rule = concat("it has exp_avg, exp_avg_sq",
                                        options_.amsgrad ? ", max_exp_avg_sq" : "",
                                        " and step, one number, or none of them")});
    }
    steps_[i] = count != state.end() ? count->second.item<int64_t>() : 0;
  }
}

std::unique_ptr<Optimizer> make_adam(tensor::NamedTensorList parameters,
                                     double lr,
                                     const AdamOptions& options,
                                     WeightDecay decay,
                                     std::string_view owner) {
  const auto share = [](double value) { return value >= 0 && value < 1; };
  if (!share(options.beta1) || !share(options.beta2) || !(options.eps >= 0) ||
      !(options.weight_decay >= 0)) {
    throw usage_error(
        {.refused = std::string(owner),
         .rule = "beta1 and beta2 are in [0, 1); eps and weight_decay are not negative",
         .value = concat("beta1=",
                         options.beta1,
                         ",beta2=",
                         options.beta2,
                         ",eps=",
                         options.eps,
                         ",weight_decay=",
                         options.weight_decay)});
  }
  return std::make_unique<AdamRule>(std::move(parameters), lr, options, decay);
}

}  // namespace muster::optim::detail
