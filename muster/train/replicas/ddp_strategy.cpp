#include "muster/train/replicas/ddp_strategy.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/train/plan/fit_plan.h"

namespace muster::train::detail {

parallel::DdpOptions ddp_options(const FitOptions& fit,
                                 const ParamValues& params,
                                 std::string_view owner) {
  const auto options = resolve_params<DdpStrategyOptions>(kDdpParams, params, owner);
  // Views: the loop drops gradients itself, and a copy of all of them would be held besides.
  return {.bucket_bytes_cap = bucket_bytes_of(options.bucket_mb, owner),
          .find_unused_parameters = fit.find_unused_parameters,
          .gradient_as_bucket_view = true};
}

void check_comm_hook(const FitOptions& options, const FitNumbers& numbers) {
  const std::string flag = concat("--comm-hook ", options.comm_hook);
  const parallel::CommHookEntry& entry =
      parallel::comm_hooks().at(parse_spec(options.comm_hook).name);
  // A hook asks its group nothing before the first bucket: this one is for its refusals alone.
  const auto hook = parallel::make_comm_hook(options.comm_hook, distributed::ProcessGroup(nullptr));
  if (hook == nullptr) return;
  if (!strategies().at(numbers.strategy_name).takes_comm_hook && numbers.world_size > 1) {
    throw usage_error({.refused = flag,
                       .rule = "the gradients of a replica travel by it",
                       .value = "--strategy " + numbers.strategy_name,
                       .hint = "take --strategy ddp or dp, or --comm-hook none"});
  }
  if (entry.keeps_errors && numbers.precision.kind == Precision::kFloat16Mixed) {
    throw usage_error({.refused = flag,
                       .rule = "it adds what a step lost to the next one: a gradient that "
                               "overflows, as the search for a loss scale makes some, would never "
                               "leave",
                       .value = "--precision " + options.precision,
                       .hint = "take --precision bf16-mixed, or --comm-hook fp16"});
  }
}

void check_split_replicas(const FitOptions& options, const FitNumbers& numbers) {
  if (options.on_oom == "fail") return;
  const auto refusal = [&](const std::string& flag, const std::string& rule) {
    return usage_error({.refused = concat("--on-oom ", options.on_oom, " with ", flag),
                        .rule = rule,
                        .hint = concat("leave ", flag, " away, or take --on-oom fail")});
  };
  if (options.find_unused_parameters) {
    throw refusal("--find-unused-parameters",
                  "gradients are averaged after backward, and each parameter has one then");
  }
  if (parallel::has_comm_hook(options.comm_hook) && numbers.world_size > 1)
    throw refusal("--comm-hook", "gradients travel after backward, as they are");
}

SplitReplicas::SplitReplicas(StrategyRequest request, std::unique_ptr<optim::Optimizer> optimizer)
    : Strategy(std::move(request)),
      average_(*module(), group()),
      optimizer_(std::move(optimizer)) {}

std::string SplitReplicas::line() const {
  return group().world_size() == 1 ? "" : std::string(kAveragesAfterwards);
}

DdpStrategy::DdpStrategy(StrategyRequest request,
                         std::unique_ptr<optim::Optimizer> optimizer,
                         parallel::DdpOptions options,
                         std::shared_ptr<parallel::CommHook> hook)
    : Strategy(std::move(request)),
      ddp_(module(), group(), std::move(options)),
      optimizer_(std::move(optimizer)),
      hook_(std::move(hook)) {
  if (hook_ == nullptr) return;
  ddp_.register_comm_hook(hook_);
  fresh_hook_state_ = hook_->state();
}

void DdpStrategy::accumulate(const std::function<void()>& pass) {
  const auto pause = ddp_.no_sync();
  pass();
}

// DDP decides its buckets in the first backward of a process, and a ring sums each place of a
// bucket in another order of ranks. So a resumed process makes one backward whose gradients are
// thrown away, and its first real step sums as the unbroken run does.
bool DdpStrategy::wants_rehearsal() const {
  // Two ranks sum the same in any order; a hook may draw and round by buckets.
  return group().world_size() > 2 || hook_ != nullptr;
}

tensor::NamedTensorList DdpStrategy::hook_state() const {
  return hook_ == nullptr ? tensor::NamedTensorList() : hook_->state();
}

void DdpStrategy::load_hook_state(const tensor::NamedTensorList& state) {
  // The rehearsal has moved it.
  if (hook_ != nullptr) hook_->load_state(state.empty() ? fresh_hook_state_ : state);
}

std::unique_ptr<Strategy> make_ddp(StrategyRequest request,
                                   const ParamValues& params,
                                   std::string_view owner) {
  auto optimizer = make_optimizer(request);
  const FitOptions& fit = request.plan.options;
  if (fit.on_oom != "fail")
    return std::make_unique<SplitReplicas>(std::move(request), std::move(optimizer));
  auto hook = parallel::make_comm_hook(fit.comm_hook, request.group);
  parallel::DdpOptions options = ddp_options(fit, params, owner);
  return std::make_unique<DdpStrategy>(
      std::move(request), std::move(optimizer), std::move(options), std::move(hook));
}

}  // namespace muster::train::detail
