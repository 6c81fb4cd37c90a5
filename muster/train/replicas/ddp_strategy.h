// Replicas with averaged gradients: what ddp and dp share, and zero1 builds on.
#pragma once

#include <memory>

#include "muster/parallel/ddp/ddp.h"
#include "muster/train/replicas/strategy.h"

namespace muster::train::detail {

struct DdpStrategyOptions {
  int64_t bucket_mb = 25;  ///< MiB of gradients that travel together
};

inline constexpr Param kDdpParams[] = {
    param<&DdpStrategyOptions::bucket_mb>("bucket_mb", "MiB of gradients that travel together")};

/// The options that `params` say. Throws a usage error that names `owner`.
parallel::DdpOptions ddp_options(const ParamValues& params, std::string_view owner);

/// A whole model and a whole optimizer on every rank; DistributedDataParallel averages the
/// gradients during backward.
class DdpStrategy : public Strategy {
 public:
  DdpStrategy(StrategyRequest request,
              std::unique_ptr<optim::Optimizer> optimizer,
              parallel::DdpOptions options);

  StepResult forward(const std::function<StepResult()>& pass) override {
    return ddp_.run_forward(pass);
  }
  void accumulate(const std::function<void()>& pass) override;
  optim::Optimizer& optimizer() override { return *optimizer_; }
  bool wants_rehearsal() const override;

 private:
  parallel::DistributedDataParallel<std::shared_ptr<torch::nn::Module>> ddp_;
  std::unique_ptr<optim::Optimizer> optimizer_;
};

/// Over the request's group, whatever its ranks are.
std::unique_ptr<Strategy> make_ddp(StrategyRequest request,
                                   const ParamValues& params,
                                   std::string_view owner);

}  // namespace muster::train::detail
