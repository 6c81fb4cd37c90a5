// One rank: no group to talk to.
#include "muster/train/replicas/strategy.h"

namespace muster::train {
namespace {

class Single final : public Strategy {
 public:
  explicit Single(StrategyRequest request)
      : Strategy(request), optimizer_(make_optimizer(request)) {}

  optim::Optimizer& optimizer() override { return *optimizer_; }

 private:
  std::unique_ptr<optim::Optimizer> optimizer_;
};

std::unique_ptr<Strategy> make_single(StrategyRequest request, const ParamValues&) {
  return std::make_unique<Single>(std::move(request));
}

}  // namespace

extern constinit const StrategyEntry single_entry{
    .name = "single",
    .help = "one rank: one process on one device",
    .ranks = RankSource::kNone,
    .params = {},
    .check = [](const FitOptions&, const FitNumbers&, const ParamValues&) {},
    .make = &make_single,
    .splits_steps = true};

}  // namespace muster::train
