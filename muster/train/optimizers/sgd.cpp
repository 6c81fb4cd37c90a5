// Stochastic gradient descent with momentum. Source: torch.optim.SGD's rule (momentum buffer starts
// as the first gradient).
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_mul.h>
#include <c10/core/GradMode.h>

#include "muster/base/text.h"
#include "muster/train/optimizer.h"

namespace muster::train {
namespace {

struct SgdOptions {
  double momentum = 0.9;
  double weight_decay = 0;
  double dampening = 0;
  bool nesterov = false;
};

constexpr Param kParams[] = {
    param<&SgdOptions::momentum>("momentum", "share of the last step that goes on"),
    param<&SgdOptions::weight_decay>("weight_decay", "L2 penalty, added to the gradient"),
    param<&SgdOptions::dampening>("dampening", "share of the gradient kept out of the momentum"),
    param<&SgdOptions::nesterov>("nesterov", "look ahead by one momentum step")};

class Sgd final : public Optimizer {
 public:
  Sgd(NamedTensorList parameters, double lr, const SgdOptions& options)
      : Optimizer(std::move(parameters), lr),
        options_(options),
        momentum_("momentum", parameters_.size()) {}

  void step() override {
    const c10::NoGradGuard no_grad;
    std::vector<at::Tensor> parameters, gradients, moving, moving_gradients;
    std::vector<size_t> indices;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (!parameters_[i].second.grad().defined()) continue;
      parameters.push_back(parameters_[i].second);
      gradients.push_back(parameters_[i].second.grad());
      indices.push_back(i);
    }
    if (parameters.empty()) return;
    if (options_.weight_decay != 0)
      gradients = at::_foreach_add(gradients, parameters, options_.weight_decay);
    if (options_.momentum != 0) {
      for (size_t k = 0; k < indices.size(); ++k) {
        at::Tensor& buffer = momentum_[indices[k]];
        if (!buffer.defined()) {
          buffer = gradients[k].clone().detach();
          continue;
        }
        moving.push_back(buffer);
        moving_gradients.push_back(gradients[k]);
      }
      if (!moving.empty()) {
        at::_foreach_mul_(moving, options_.momentum);
        at::_foreach_add_(moving, moving_gradients, 1 - options_.dampening);
      }
      std::vector<at::Tensor> buffers;
      for (const size_t index : indices) buffers.push_back(momentum_[index]);
      gradients = options_.nesterov ? at::_foreach_add(gradients, buffers, options_.momentum)
                                    : std::move(buffers);
    }
    at::_foreach_add_(parameters, gradients, -lr());
  }

  NamedTensorList state() const override {
    NamedTensorList out;
    momentum_.save(parameters_, out);
    return out;
  }
  void load_state(const TensorFile& file) override { momentum_.load(parameters_, file); }

 private:
  SgdOptions options_;
  detail::Slots momentum_;
};

std::unique_ptr<Optimizer> make(NamedTensorList parameters, double lr, const ParamValues& params) {
  const auto options = resolve_params<SgdOptions>(kParams, params, "optimizer sgd");
  if (options.momentum < 0 || options.weight_decay < 0 ||
      (options.nesterov && (options.momentum <= 0 || options.dampening != 0))) {
    throw usage_error({.refused = "optimizer sgd",
                       .rule = "momentum and weight_decay are not negative; nesterov needs "
                               "momentum above 0 and no dampening",
                       .value = concat("momentum=",
                                       options.momentum,
                                       ",weight_decay=",
                                       options.weight_decay,
                                       ",dampening=",
                                       options.dampening)});
  }
  return std::make_unique<Sgd>(std::move(parameters), lr, options);
}

}  // namespace

extern constinit const OptimizerEntry sgd_entry{
    "sgd", "stochastic gradient descent with momentum", 0.05, kParams, &make};

}  // namespace muster::train
