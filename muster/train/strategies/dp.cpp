// Ranks that are threads of one process: the same replicas and the same averages as ddp's, over the
// thread backend. No launcher and no second process.
#include "muster/train/replicas/ddp_strategy.h"

namespace muster::train {

extern constinit const StrategyEntry dp_entry{
    .name = "dp",
    .help = "a replica per thread of this one process (--devices N); else as ddp",
    .ranks = RankSource::kThreads,
    .params = detail::kDdpParams,
    .check =
        [](const FitOptions& options, const FitNumbers& numbers, const ParamValues& params) {
          detail::check_split_replicas(options, numbers);
          detail::ddp_options(options, params, "strategy dp");
        },
    .make =
        [](StrategyRequest request, const ParamValues& params) {
          return detail::make_ddp(std::move(request), params, "strategy dp");
        },
    .takes_comm_hook = true,
    .splits_steps = true,
    .fills_buckets = true};

}  // namespace muster::train
