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
    "single",
    "one rank: one process on one device",
    RankSource::kNone,
    {},
    [](const FitOptions&, const FitNumbers&, const ParamValues&) {},
    &make_single,
    /*takes_whole_task=*/false,
    /*recomputes_units=*/false,
    /*takes_comm_hook=*/false,
    /*ranks_per_replica=*/nullptr,
    /*places_units=*/false,
    /*check_module=*/nullptr,
    /*splits_steps=*/true};

}  // namespace muster::train
