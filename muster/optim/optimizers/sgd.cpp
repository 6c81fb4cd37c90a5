// Stochastic gradient descent with momentum. Source: torch.optim.SGD's rule (the momentum buffer
// starts as the first gradient), by ATen's fused kernel.
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>

#include "muster/base/text.h"
#include "muster/optim/optimizer.h"
#include "muster/optim/optimizer_state.h"

namespace muster::optim {
namespace {

struct SgdOptions {
  double momentum = 0.9;
  double weight_decay = 0;
  double dampening = 0;
  bool nesterov = false;
  bool maximize = false;
};

constexpr Param kSgdParams[] = {
    param<&SgdOptions::momentum>("momentum", "share of the last step that goes on"),
    param<&SgdOptions::weight_decay>("weight_decay", "L2 penalty, added to the gradient"),
    param<&SgdOptions::dampening>("dampening", "share of the gradient kept out of the momentum"),
    param<&SgdOptions::nesterov>("nesterov", "look ahead by one momentum step"),
    param<&SgdOptions::maximize>("maximize", "ascend instead of descend")};

class Sgd final : public Optimizer {
 public:
  Sgd(tensor::NamedTensorList parameters, double lr, const SgdOptions& options)
      : Optimizer(std::move(parameters), lr),
        options_(options),
        momentum_("momentum", parameters_.size()) {}

  void step() override {
    const c10::NoGradGuard no_grad;
    const detail::ReadyList ready = detail::ready(parameters_);
    if (options_.momentum == 0) return update(ready, {}, false);
    // The kernel starts the buffers of all its tensors or of none: two calls where a parameter gets
    // its first gradient later than others.
    detail::ReadyList first, rest;
    std::vector<at::Tensor> first_buffers, rest_buffers;
    for (size_t k = 0; k < ready.indices.size(); ++k) {
      at::Tensor& buffer = momentum_[ready.indices[k]];
      const bool is_first = !buffer.defined();
      if (is_first) buffer = at::empty_like(ready.parameters[k]);
      (is_first ? first : rest).parameters.push_back(ready.parameters[k]);
      (is_first ? first : rest).gradients.push_back(ready.gradients[k]);
      (is_first ? first_buffers : rest_buffers).push_back(buffer);
    }
    update(first, first_buffers, true);
    update(rest, rest_buffers, false);
  }

  std::optional<double> momentum() const override { return options_.momentum; }
  void set_momentum(double momentum) override { options_.momentum = momentum; }

  tensor::NamedTensorList state() const override {
    tensor::NamedTensorList out;
    momentum_.save(parameters_, out);
    return out;
  }
  void load_state(const tensor::TensorFile& file) override {
    momentum_.load(parameters_, detail::index_state(file, parameters_, {momentum_.name()}));
  }

 private:
  void update(const detail::ReadyList& ready, at::TensorList buffers, bool is_first_step) const {
    if (ready.parameters.empty()) return;
    at::_fused_sgd_(ready.parameters,
                    ready.gradients,
                    buffers,
                    options_.weight_decay,
                    options_.momentum,
                    lr(),
                    options_.dampening,
                    options_.nesterov,
                    options_.maximize,
                    is_first_step);
  }

  SgdOptions options_;
  detail::Slots momentum_;
};

std::unique_ptr<Optimizer> make_sgd(tensor::NamedTensorList parameters,
                                    double lr,
                                    const ParamValues& params) {
  const auto options = resolve_params<SgdOptions>(kSgdParams, params, "optimizer sgd");
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
    .name = "sgd",
    .help = "stochastic gradient descent with momentum",
    .default_lr = 0.05,
    .params = kSgdParams,
    .make = &make_sgd,
    .keeps_state =
        [](const ParamValues& params, double most_momentum) {
          const auto options = resolve_params<SgdOptions>(kSgdParams, params, "optimizer sgd");
          return options.momentum != 0 || most_momentum > 0;
        },
    .without_state = "momentum=0"};

}  // namespace muster::optim
