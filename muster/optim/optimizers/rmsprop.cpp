// RMSprop. Source: Hinton, "Neural networks for machine learning", lecture 6e; centered: Graves
// 2013, section 4.2; both with torch.optim.RMSprop's order of operations. ATen has no fused kernel
// for it, so these are foreach kernels, bit for bit those of Python, part by part through the
// cache.
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcdiv.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_neg.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <c10/core/GradMode.h>

#include "muster/base/text.h"
#include "muster/optim/optimizer.h"
#include "muster/optim/optimizer_state.h"

namespace muster::optim {
namespace {

struct RmspropOptions {
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;
  bool maximize = false;
};

constexpr Param kRmspropParams[] = {
    param<&RmspropOptions::alpha>("alpha", "decay of the mean of squared gradients"),
    param<&RmspropOptions::eps>("eps", "added to the root, against division by zero"),
    param<&RmspropOptions::weight_decay>("weight_decay", "L2 penalty, added to the gradient"),
    param<&RmspropOptions::momentum>("momentum", "share of the last step that goes on"),
    param<&RmspropOptions::centered>("centered",
                                     "divide by the deviation, not the root of squares"),
    param<&RmspropOptions::maximize>("maximize", "ascend instead of descend")};

class Rmsprop final : public Optimizer {
 public:
  Rmsprop(tensor::NamedTensorList parameters, double lr, const RmspropOptions& options)
      : Optimizer(std::move(parameters), lr),
        options_(options),
        square_("square_avg", parameters_.size()),
        mean_("grad_avg", parameters_.size()),
        momentum_("momentum_buffer", parameters_.size()) {}

  void step() override {
    const c10::NoGradGuard no_grad;
    const detail::ReadyList ready = detail::ready(parameters_);
    if (ready.parameters.empty()) return;
    detail::TensorLists lists{ready.parameters, ready.gradients, square_.of(ready)};
    if (options_.centered) lists.push_back(mean_.of(ready));
    if (options_.momentum > 0) lists.push_back(momentum_.of(ready));
    detail::in_parts(lists, [this](const detail::TensorLists& part) { update(part); });
  }

  std::optional<double> momentum() const override { return options_.momentum; }
  void set_momentum(double momentum) override { options_.momentum = momentum; }

  tensor::NamedTensorList state() const override {
    tensor::NamedTensorList out;
    square_.save(parameters_, out);
    mean_.save(parameters_, out);
    momentum_.save(parameters_, out);
    return out;
  }

  void load_state(const tensor::TensorFile& file) override {
    const detail::StateIndex state =
        detail::index_state(file, parameters_, {square_.name(), mean_.name(), momentum_.name()});
    square_.load(parameters_, state);
    mean_.load(parameters_, state);
    momentum_.load(parameters_, state);
  }

 private:
  /// Lists as in step(): the last one is that of the momentum, if there is any.
  void update(const detail::TensorLists& lists) const {
    const std::vector<at::Tensor>& parameters = lists[0];
    std::vector<at::Tensor> gradients = lists[1];
    if (options_.maximize) gradients = at::_foreach_neg(gradients);
    if (options_.weight_decay != 0)
      gradients = at::_foreach_add(gradients, parameters, options_.weight_decay);
    const std::vector<at::Tensor> divisors = scale(lists, gradients);
    if (options_.momentum > 0) {
      at::_foreach_mul_(lists.back(), options_.momentum);
      at::_foreach_addcdiv_(lists.back(), gradients, divisors);
      at::_foreach_add_(parameters, lists.back(), -lr());
    } else {
      at::_foreach_addcdiv_(parameters, gradients, divisors, -lr());
    }
  }

  /// Moves the running means and returns what each gradient is divided by.
  std::vector<at::Tensor> scale(const detail::TensorLists& lists, at::TensorList gradients) const {
    const std::vector<at::Tensor>& squares = lists[2];
    at::_foreach_mul_(squares, options_.alpha);
    at::_foreach_addcmul_(squares, gradients, gradients, 1 - options_.alpha);
    std::vector<at::Tensor> roots;
    if (options_.centered) {
      const std::vector<at::Tensor>& means = lists[3];
      at::_foreach_lerp_(means, gradients, 1 - options_.alpha);
      roots = at::_foreach_addcmul(squares, means, means, -1);
      at::_foreach_sqrt_(roots);
    } else {
      roots = at::_foreach_sqrt(squares);
    }
    at::_foreach_add_(roots, options_.eps);
    return roots;
  }

  RmspropOptions options_;
  detail::Slots square_, mean_, momentum_;
};

std::unique_ptr<Optimizer> make_rmsprop(tensor::NamedTensorList parameters,
                                        double lr,
                                        const ParamValues& params) {
  const auto options = resolve_params<RmspropOptions>(kRmspropParams, params, "optimizer rmsprop");
  // alpha may be 1 in Python, where the mean then stays 0 for ever; nobody means that.
  if (!(options.alpha >= 0 && options.alpha < 1) || !(options.eps >= 0) ||
      !(options.weight_decay >= 0) || !(options.momentum >= 0)) {
    throw usage_error(
        {.refused = "optimizer rmsprop",
         .rule = "alpha is in [0, 1); eps, weight_decay and momentum are not negative",
         .value = concat("alpha=",
                         options.alpha,
                         ",eps=",
                         options.eps,
                         ",weight_decay=",
                         options.weight_decay,
                         ",momentum=",
                         options.momentum)});
  }
  return std::make_unique<Rmsprop>(std::move(parameters), lr, options);
}

}  // namespace

extern constinit const OptimizerEntry rmsprop_entry{
    "rmsprop",
    "steps divided by the root of a running mean of squares",
    1e-2,
    kRmspropParams,
    &make_rmsprop};

}  // namespace muster::optim
