// Adam with decoupled weight decay. Source: Loshchilov & Hutter 2019, algorithm 2; operations in
// the order of torch.optim.AdamW.
#include <cmath>

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcdiv.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include "muster/base/text.h"
#include "muster/train/optimizer.h"

namespace muster::train {
namespace {

struct AdamwOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
};

constexpr Param kParams[] = {
    param<&AdamwOptions::beta1>("beta1", "decay of the mean of gradients"),
    param<&AdamwOptions::beta2>("beta2", "decay of the mean of squared gradients"),
    param<&AdamwOptions::eps>("eps", "added to the root, against division by zero"),
    param<&AdamwOptions::weight_decay>("weight_decay", "share of lr by which weights shrink")};

class Adamw final : public Optimizer {
 public:
  Adamw(NamedTensorList parameters, double lr, const AdamwOptions& options)
      : Optimizer(std::move(parameters), lr),
        options_(options),
        steps_(parameters_.size(), 0),
        mean_("exp_avg", parameters_.size()),
        square_("exp_avg_sq", parameters_.size()) {}

  void step() override {
    const c10::NoGradGuard no_grad;
    std::vector<at::Tensor> parameters, gradients, means, squares;
    std::vector<at::Scalar> roots, sizes;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const at::Tensor& parameter = parameters_[i].second;
      if (!parameter.grad().defined()) continue;
      if (!mean_[i].defined()) {
        mean_[i] = at::zeros_like(parameter);
        square_[i] = at::zeros_like(parameter);
      }
      ++steps_[i];
      parameters.push_back(parameter);
      gradients.push_back(parameter.grad());
      means.push_back(mean_[i]);
      squares.push_back(square_[i]);
      // 1 - beta^t of the paper's lines 9 and 10, per parameter: a parameter may have skipped
      // steps.
      roots.emplace_back(std::sqrt(1 - std::pow(options_.beta2, static_cast<double>(steps_[i]))));
      sizes.emplace_back(-(lr() / (1 - std::pow(options_.beta1, static_cast<double>(steps_[i])))));
    }
    if (parameters.empty()) return;
    at::_foreach_mul_(parameters, 1 - lr() * options_.weight_decay);
    at::_foreach_lerp_(means, gradients, 1 - options_.beta1);
    at::_foreach_mul_(squares, options_.beta2);
    at::_foreach_addcmul_(squares, gradients, gradients, 1 - options_.beta2);
    std::vector<at::Tensor> denominators = at::_foreach_sqrt(squares);
    at::_foreach_div_(denominators, roots);
    at::_foreach_add_(denominators, options_.eps);
    at::_foreach_addcdiv_(parameters, means, denominators, sizes);
  }

  NamedTensorList state() const override {
    NamedTensorList out;
    mean_.save(parameters_, out);
    square_.save(parameters_, out);
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (steps_[i] > 0)
        out.emplace_back("step/" + parameters_[i].first, at::full({}, steps_[i], at::kLong));
    }
    return out;
  }

  void load_state(const TensorFile& file) override {
    mean_.load(parameters_, file);
    square_.load(parameters_, file);
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (mean_[i].defined()) steps_[i] = file.at("step/" + parameters_[i].first).item<int64_t>();
    }
  }

 private:
  AdamwOptions options_;
  std::vector<int64_t> steps_;
  detail::Slots mean_;
  detail::Slots square_;
};

std::unique_ptr<Optimizer> make(NamedTensorList parameters, double lr, const ParamValues& params) {
  const auto options = resolve_params<AdamwOptions>(kParams, params, "optimizer adamw");
  const auto share = [](double value) { return value >= 0 && value < 1; };
  if (!share(options.beta1) || !share(options.beta2) || options.eps < 0 ||
      options.weight_decay < 0) {
    throw usage_error(
        {.refused = "optimizer adamw",
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
  return std::make_unique<Adamw>(std::move(parameters), lr, options);
}

}  // namespace

extern constinit const OptimizerEntry adamw_entry{
    "adamw", "Adam with decoupled weight decay", 1e-3, kParams, &make};

}  // namespace muster::train
