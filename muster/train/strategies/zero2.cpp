// Source: Rajbhandari et al. 2020, "ZeRO", section 5.2.
#include "muster/train/replicas/zero_strategy.h"

namespace muster::train {

extern constinit const StrategyEntry zero2_entry{
    "zero2",
    "as zero1, with the gradients in shards too (ZeRO-2)",
    RankSource::kProcesses,
    detail::kZeroParams,
    [](const FitOptions& options, const FitNumbers& numbers, const ParamValues& params) {
      detail::zero_options(options, numbers, params, "strategy zero2");
    },
    [](StrategyRequest request, const ParamValues& params) {
      return detail::make_zero(2, std::move(request), params, "strategy zero2");
    },
    /*takes_whole_task=*/false,
    /*recomputes_units=*/false,
    /*takes_comm_hook=*/false,
    /*ranks_per_replica=*/nullptr,
    /*places_units=*/false,
    /*check_module=*/nullptr,
    /*splits_steps=*/true};

}  // namespace muster::train
