#include "muster/train/replicas/zero_strategy.h"

#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <ATen/ops/scalar_tensor.h>

#include "muster/base/text.h"
#include "muster/tensor/bfloat16.h"
#include "muster/train/plan/fit_plan.h"
#include "muster/train/replicas/ddp_strategy.h"
#include "muster/train/replicas/split_shards.h"

namespace muster::train::detail {
namespace {

class ZeroStrategy final : public Strategy {
 public:
  ZeroStrategy(StrategyRequest request,
               const OptimizerMaker& make,
               double lr,
               const parallel::ZeroOptions& options)
      : Strategy(std::move(request)),
        zero_(module(), group(), options),
        optimizer_(zero_.core(), make, lr) {}

  StepResult forward(const std::function<StepResult()>& pass) override {
    return zero_.run_forward(pass);
  }
  void accumulate(const std::function<void()>& pass) override { zero_.accumulate(pass); }
  optim::Optimizer& optimizer() override { return optimizer_; }
  tensor::NamedTensorList optimizer_state() override { return optimizer_.gather_state(); }

  bool shards_weights() const override { return shards_weights_; }
  void load_weights(const std::vector<tensor::LoadedTensor>& tensors) override;
  std::vector<WeighedResult> evaluate(const BatchToCut& batch) override {
    const auto pass = [&] { return batch.pass(batch.batch); };
    return {{shards_weights_ ? zero_.evaluate(pass) : pass(), batch.weight(batch.batch)}};
  }
  void stand_aside(const BatchToCut& /*batch*/) override {
    if (shards_weights_) zero_.stand_aside();
  }
  tensor::NamedTensorList whole_state(tensor::NamedTensorList state) override {
    return shards_weights_ ? with_weights(std::move(state), zero_.gather_weights()) : state;
  }
  tensor::NamedTensorList own_state(tensor::NamedTensorList state) override {
    return shards_weights_ ? with_weights(std::move(state), zero_.own_weights()) : state;
  }

  /// What was gathered before is of other shards.
  void weights_written() override {
    if (shards_weights_) zero_.core().units()->release_all();
  }

  at::Tensor clip_gradients(double max_norm) override {
    // In stage 1 every rank has all gradients, and the norm is ddp's to the last bit.
    if (!zero_.core().shards_gradients()) return Strategy::clip_gradients(max_norm);
    return at::scalar_tensor(zero_.clip_grad_norm(max_norm), at::kDouble);
  }

  std::vector<memory::OwnedTensor> owned_memory() const override {
    std::vector<memory::OwnedTensor> all;
    for (auto& [unit, tensor] : zero_.core().held_weights())
      all.push_back({tensor, memory::Owner::kParameter, unit});
    for (auto& [unit, tensor] : zero_.core().held_gradients())
      all.push_back({tensor, memory::Owner::kGradient, unit});
    return all;
  }

  parallel::BucketMemory bucket_memory() const override { return zero_.bucket_memory(); }

  // In stage 2 the buckets are laid out once and for all.
  bool wants_rehearsal() const override { return !shards_gradients_ && group().world_size() > 2; }

 private:
  /// `state` with `weights` in the place of those in shards; those that are not there are left out.
  tensor::NamedTensorList with_weights(tensor::NamedTensorList state,
                                       const tensor::NamedTensorList& weights) {
    std::map<std::string_view, at::Tensor> in_shards;
    for (const std::string& name : names_in_shards_) in_shards[name] = at::Tensor();
    for (const auto& [name, tensor] : weights) in_shards[name] = tensor;
    tensor::NamedTensorList out;
    for (auto& [name, tensor] : state) {
      const auto found = in_shards.find(name);
      const at::Tensor& given = found == in_shards.end() ? tensor : found->second;
      if (given.defined()) out.emplace_back(name, given);
    }
    return out;
  }

  std::set<std::string, std::less<>> find_names_in_shards() {
    std::set<std::string, std::less<>> names;
    for (const parallel::ShardedParameters* part :
         {&std::as_const(zero_.core().parameters()), zero_.core().frozen()}) {
      if (part == nullptr) continue;
      for (const auto& [name, parameter] : part->parameters()) names.insert(name);
    }
    return names;
  }

  parallel::ShardedDataParallel<std::shared_ptr<torch::nn::Module>> zero_;
  std::set<std::string, std::less<>> names_in_shards_ = find_names_in_shards();
  bool shards_gradients_ = zero_.core().shards_gradients();
  bool shards_weights_ = zero_.core().units() != nullptr;
  ShardedOptimizer optimizer_;
};

void ZeroStrategy::load_weights(const std::vector<tensor::LoadedTensor>& tensors) {
  if (!shards_weights_) return Strategy::load_weights(tensors);
  std::vector<tensor::LoadedTensor> whole;
  tensor::NamedTensorList in_shards;
  for (const tensor::LoadedTensor& tensor : tensors) {
    if (names_in_shards_.contains(tensor.name)) {
      in_shards.emplace_back(tensor.name, tensor.saved);
    } else {
      whole.push_back(tensor);
    }
  }
  Strategy::load_weights(whole);
  zero_.load_weights(in_shards);
}

}  // namespace

void check_shards(const FitOptions& fit,
                  const FitNumbers& numbers,
                  const std::string& dtype,
                  std::string_view owner) {
  const optim::OptimizerEntry& entry = optim::optimizers().at(numbers.optimizer_name);
  if (!entry.elementwise) {
    throw usage_error({.refused = concat(owner, " with optimizer ", entry.name),
                       .rule = "the optimizer looks at each element of a parameter alone",
                       .hint = "take --strategy ddp"});
  }
  if (dtype != "float32" && dtype != "bfloat16") {
    throw usage_error(
        {.refused = concat(owner, ": dtype"), .rule = "float32 or bfloat16", .value = dtype});
  }
  if (dtype == "bfloat16" && numbers.precision.kind != Precision::kFloat32) {
    throw usage_error({.refused = concat("--precision ", fit.precision),
                       .rule = "mixed precision keeps weights and gradients in float32",
                       .value = concat(owner, " with dtype=bfloat16"),
                       .hint = "leave one of the two away"});
  }
}

ZeroStrategyOptions zero_options(const FitOptions& fit,
                                 const FitNumbers& numbers,
                                 const ParamValues& params,
                                 std::string_view owner) {
  auto options = resolve_params<ZeroStrategyOptions>(kZeroParams, params, owner);
  bucket_bytes_of(options.bucket_mb, owner);
  check_shards(fit, numbers, options.dtype, owner);
  check_split_replicas(fit, numbers);
  return options;
}

std::unique_ptr<Strategy> make_zero(int stage,
                                    StrategyRequest request,
                                    const ParamValues& params,
                                    std::string_view owner) {
  const FitPlan& plan = request.plan;
  const ZeroStrategyOptions options = zero_options(plan.options, plan, params, owner);
  return make_sharded({.stage = stage, .bucket_bytes = bucket_bytes_of(options.bucket_mb, owner)},
                      options.dtype,
                      std::move(request));
}

std::unique_ptr<Strategy> make_sharded(parallel::ZeroOptions options,
                                       const std::string& dtype,
                                       StrategyRequest request) {
  const FitPlan& plan = request.plan;
  if (dtype == "bfloat16") tensor::to_bfloat16(*request.module);
  // A shard's pieces have their parameters' names, so groups are kept within each bucket.
  const ParameterRules rules = request.rules;
  const OptimizerMaker make = [&plan, &rules](tensor::NamedTensorList parameters) {
    return make_optimizer(plan, rules, std::move(parameters));
  };
  options.find_unused_parameters = plan.options.find_unused_parameters;
  if (plan.options.on_oom != "fail")
    return std::make_unique<SplitShards>(std::move(request), make, plan.lr, options);
  return std::make_unique<ZeroStrategy>(std::move(request), make, plan.lr, options);
}

}  // namespace muster::train::detail
