// Source: Rajbhandari et al. 2020, "ZeRO", section 5.2.
#include "muster/train/replicas/zero_strategy.h"

namespace muster::train {

extern constinit const StrategyEntry zero2_entry{
    .name = "zero2",
    .help = "as zero1, with the gradients in shards too (ZeRO-2)",
    .ranks = RankSource::kProcesses,
    .params = detail::kZeroParams,
    .check =
        [](const FitOptions& options, const FitNumbers& numbers, const ParamValues& params) {
          detail::zero_options(options, numbers, params, "strategy zero2");
        },
    .make =
        [](StrategyRequest request, const ParamValues& params) {
          return detail::make_zero(2, std::move(request), params, "strategy zero2");
        },
    .splits_steps = true,
    .divides_model = true,
    .fills_buckets = true};

}  // namespace muster::train
