// Replicas with averaged gradients: what ddp and dp share, and zero1 builds on.
#pragma once

#include <memory>

#include "muster/parallel/ddp/ddp.h"
#include "muster/parallel/replicas/gradient_average.h"
#include "muster/train/replicas/strategy.h"

namespace muster::train::detail {

struct DdpStrategyOptions {
  int64_t bucket_mb = 25;  ///< MiB of gradients that travel together
};

inline constexpr Param kDdpParams[] = {
    param<&DdpStrategyOptions::bucket_mb>("bucket_mb", "MiB of gradients that travel together")};

/// The options that `params` and the flags say, but for the communication hook. Throws a usage error
/// that names `owner`.
parallel::DdpOptions ddp_options(const FitOptions& fit,
                                 const ParamValues& params,
                                 std::string_view owner);

/// Throws a usage error for --comm-hook that is no hook's name or has no sense in this run.
void check_comm_hook(const FitOptions& options, const FitNumbers& numbers);

/// Throws a usage error for what --on-oom split cannot have: collectives in a forward or a backward.
void check_split_replicas(const FitOptions& options, const FitNumbers& numbers);

/// A whole model and a whole optimizer on every rank; DistributedDataParallel averages the
/// gradients during backward.
class DdpStrategy : public Strategy {
 public:
  DdpStrategy(StrategyRequest request,
              std::unique_ptr<optim::Optimizer> optimizer,
              parallel::DdpOptions options,
              std::shared_ptr<parallel::CommHook> hook);

  StepResult forward(const std::function<StepResult()>& pass) override {
    return ddp_.run_forward(pass);
  }
  void accumulate(const std::function<void()>& pass) override;
  optim::Optimizer& optimizer() override { return *optimizer_; }
  bool wants_rehearsal() const override;
  parallel::BucketMemory bucket_memory() const override { return ddp_.bucket_memory(); }
  tensor::NamedTensorList hook_state() const override;
  void load_hook_state(const tensor::NamedTensorList& state) override;

 private:
  parallel::DistributedDataParallel<std::shared_ptr<torch::nn::Module>> ddp_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::shared_ptr<parallel::CommHook> hook_;  // null: DDP's own sum
  tensor::NamedTensorList fresh_hook_state_;
};

/// Strategy::line() of those that do so.
inline constexpr std::string_view kAveragesAfterwards =
    "gradients are averaged after backward, not during it, so that a step may be made again "
    "(--on-oom split)";

/// The same for --on-oom split: each rank's backwards are its own, and gradients are averaged when all
/// have passed.
class SplitReplicas : public Strategy {
 public:
  SplitReplicas(StrategyRequest request, std::unique_ptr<optim::Optimizer> optimizer);

  optim::Optimizer& optimizer() override { return *optimizer_; }
  void average_gradients() override { average_.average(); }
  std::string line() const override;

 private:
  parallel::GradientAverage average_;
  std::unique_ptr<optim::Optimizer> optimizer_;
};

/// Over the request's group, whatever its ranks are.
std::unique_ptr<Strategy> make_ddp(StrategyRequest request,
                                   const ParamValues& params,
                                   std::string_view owner);

}  // namespace muster::train::detail
