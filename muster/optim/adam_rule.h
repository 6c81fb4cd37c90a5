// The rule that adam and adamw share; they differ in where weight decay goes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "muster/optim/optimizer.h"
#include "muster/optim/optimizer_state.h"

namespace muster::optim::detail {

struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
  bool maximize = false;
};

/// kCoupled: an L2 penalty, added to the gradient (Adam). kDecoupled: weights shrink by
/// lr * weight_decay, and the moments do not see it (AdamW; Loshchilov & Hutter 2019, algorithm 2).
enum class WeightDecay { kCoupled, kDecoupled };

/// By ATen's fused kernels. State: exp_avg, exp_avg_sq, step // [] int64, and with amsgrad
/// max_exp_avg_sq. The names are torch.optim's.
class AdamRule final : public Optimizer {
 public:
  AdamRule(tensor::NamedTensorList parameters,
           double lr,
           const AdamOptions& options,
           WeightDecay decay);

  void step() override;
  std::optional<double> momentum() const override { return options_.beta1; }
  void set_momentum(double momentum) override { options_.beta1 = momentum; }
  tensor::NamedTensorList state() const override;
  void load_state(const tensor::TensorFile& file) override;

 private:
  /// A counter for each of `ready`'s parameters // [] float32, after this step.
  std::vector<at::Tensor> count_step(const ReadyList& ready);

  AdamOptions options_;
  WeightDecay decay_;
  std::vector<int64_t> steps_;
  Slots mean_, square_, max_square_;
};

/// Throws a usage error that names `owner` for values that make no sense.
std::unique_ptr<Optimizer> make_adam(tensor::NamedTensorList parameters,
                                     double lr,
                                     const AdamOptions& options,
                                     WeightDecay decay,
                                     std::string_view owner);

}  // namespace muster::optim::detail
