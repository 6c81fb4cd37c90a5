// zero1 and zero2 with --on-oom split.
#pragma once

#include <string>

#include "muster/parallel/replicas/gradient_average.h"
#include "muster/parallel/sharded/zero.h"
#include "muster/train/replicas/sharded_optimizer.h"
#include "muster/train/replicas/strategy.h"

namespace muster::train::detail {

/// Each rank's backwards are its own, and gradients are averaged when all have passed: so they are
/// whole on every rank until the step is made, in stage 2 too. The optimizer's state is in shards.
class SplitShards final : public Strategy {
 public:
  /// `options` of stage 1 or 2.
  SplitShards(StrategyRequest request,
              const OptimizerMaker& make,
              double lr,
              const parallel::ZeroOptions& options);

  StepResult forward(const std::function<StepResult()>& pass) override {
    core_.before_forward();
    return pass();
  }
  void average_gradients() override { average_.average(); }
  optim::Optimizer& optimizer() override { return optimizer_; }
  tensor::NamedTensorList optimizer_state() override { return optimizer_.gather_state(); }
  std::string line() const override;

 private:
  int stage_;
  parallel::GradientAverage average_;
  parallel::ZeroCore core_;
  ShardedOptimizer optimizer_;
};

}  // namespace muster::train::detail
