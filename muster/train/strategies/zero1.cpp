// Source: Rajbhandari et al. 2020, "ZeRO", section 5.1.
#include "muster/train/replicas/zero_strategy.h"

namespace muster::train {

extern constinit const StrategyEntry zero1_entry{
    .name = "zero1",
    .help = "as ddp, with the optimizer state in shards, one per rank (ZeRO-1)",
    .ranks = RankSource::kProcesses,
    .params = detail::kZeroParams,
    .check =
        [](const FitOptions& options, const FitNumbers& numbers, const ParamValues& params) {
          detail::zero_options(options, numbers, params, "strategy zero1");
        },
    .make =
        [](StrategyRequest request, const ParamValues& params) {
          return detail::make_zero(1, std::move(request), params, "strategy zero1");
        },
    .splits_steps = true,
    .divides_model = true,
    .fills_buckets = true};

}  // namespace muster::train
