#include "muster/train/replicas/zero_strategy.h"

#include <utility>

#include "muster/base/text.h"
#include "muster/tensor/bfloat16.h"
#include "muster/train/plan/plan.h"

namespace muster::train::detail {
namespace {

class ZeroStrategy final : public Strategy {
 public:
  ZeroStrategy(StrategyRequest request,
               const OptimizerMaker& make,
               double lr,
               const parallel::ZeroOptions& options)
      : Strategy(std::move(request)),
        dtype_(model()->parameters()[0].scalar_type()),
        zero_(model(), group(), options),
        optimizer_(zero_.core(), make, lr) {}

  at::Tensor forward(const at::Tensor& images) override {
    return zero_.forward(images.to(dtype_)).to(at::kFloat);
  }
  void accumulate(const std::function<void()>& pass) override { zero_.accumulate(pass); }
  optim::Optimizer& optimizer() override { return optimizer_; }
  tensor::NamedTensorList optimizer_state() override { return optimizer_.gather_state(); }

  double clip_gradients(double max_norm) override {
    // In stage 1 every rank has all gradients, and the norm is ddp's to the last bit.
    if (!zero_.core().shards_gradients()) return Strategy::clip_gradients(max_norm);
    return zero_.clip_grad_norm(max_norm);
  }

  // In stage 2 the buckets are laid out once and for all.
  void rehearse(const data::Batch& batch) override {
    if (!zero_.core().shards_gradients() && group().world_size() > 2) rehearse_backward(batch);
  }

 private:
  at::ScalarType dtype_;
  parallel::ShardedDataParallel<std::shared_ptr<models::Classifier>> zero_;
  ShardedOptimizer optimizer_;
};

}  // namespace

ZeroStrategyOptions zero_options(const TrainPlan& plan,
                                 const ParamValues& params,
                                 std::string_view owner) {
  auto options = resolve_params<ZeroStrategyOptions>(kZeroParams, params, owner);
  bucket_bytes_of(options.bucket_mb, owner);
  const optim::OptimizerEntry& entry = optim::optimizers().at(plan.optimizer_name);
  if (!entry.elementwise) {
    throw usage_error({.refused = concat(owner, " with optimizer ", entry.name),
                       .rule = "the optimizer looks at each element of a parameter alone",
                       .hint = "take --strategy ddp"});
  }
  if (options.dtype != "float32" && options.dtype != "bfloat16") {
    throw usage_error({.refused = concat(owner, ": dtype"),
                       .rule = "float32 or bfloat16",
                       .value = options.dtype});
  }
  if (options.dtype == "bfloat16" && plan.precision.kind != Precision::kFloat32) {
    throw usage_error({.refused = concat("--precision ", plan.options.precision),
                       .rule = "mixed precision keeps weights and gradients in float32",
                       .value = concat(owner, " with dtype=bfloat16"),
                       .hint = "leave one of the two away"});
  }
  return options;
}

std::unique_ptr<Strategy> make_zero(int stage,
                                    StrategyRequest request,
                                    const ParamValues& params,
                                    std::string_view owner) {
  const TrainPlan& plan = request.plan;
  const ZeroStrategyOptions options = zero_options(plan, params, owner);
  const optim::OptimizerEntry& entry = optim::optimizers().at(plan.optimizer_name);
  if (options.dtype == "bfloat16") tensor::to_bfloat16(*request.model);
  const OptimizerMaker make = [&](tensor::NamedTensorList parameters) {
    return entry.make(std::move(parameters), plan.lr, plan.optimizer_params);
  };
  return std::make_unique<ZeroStrategy>(
      std::move(request),
      make,
      plan.lr,
      parallel::ZeroOptions{.stage = stage,
                            .bucket_bytes = bucket_bytes_of(options.bucket_mb, owner)});
}

}  // namespace muster::train::detail
