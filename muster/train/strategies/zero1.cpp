// Source: Rajbhandari et al. 2020, "ZeRO", section 5.1.
#include "muster/train/replicas/zero_strategy.h"

namespace muster::train {

extern constinit const StrategyEntry zero1_entry{
    "zero1",
    "as ddp, with the optimizer state in shards, one per rank (ZeRO-1)",
    RankSource::kProcesses,
    detail::kZeroParams,
    [](const FitOptions& options, const FitNumbers& numbers, const ParamValues& params) {
      detail::zero_options(options, numbers, params, "strategy zero1");
    },
    [](StrategyRequest request, const ParamValues& params) {
      return detail::make_zero(1, std::move(request), params, "strategy zero1");
    },
    /*takes_whole_task=*/false,
    /*recomputes_units=*/false,
    /*takes_comm_hook=*/false,
    /*ranks_per_replica=*/nullptr,
    /*places_units=*/false,
    /*check_module=*/nullptr,
    /*splits_steps=*/true};

}  // namespace muster::train
