// Ranks that are threads of one process: the same replicas and the same averages as ddp's, over the
// thread backend. No launcher and no second process.
#include "muster/train/replicas/ddp_strategy.h"

namespace muster::train {

extern constinit const StrategyEntry dp_entry{
    "dp",
    "a replica per thread of this one process (--devices N); else as ddp",
    RankSource::kThreads,
    detail::kDdpParams,
    [](const FitOptions& options, const FitNumbers& numbers, const ParamValues& params) {
      detail::check_split_replicas(options, numbers);
      detail::ddp_options(options, params, "strategy dp");
    },
    [](StrategyRequest request, const ParamValues& params) {
      return detail::make_ddp(std::move(request), params, "strategy dp");
    },
    /*takes_whole_task=*/false,
    /*recomputes_units=*/false,
    /*takes_comm_hook=*/true,
    /*ranks_per_replica=*/nullptr,
    /*places_units=*/false,
    /*check_module=*/nullptr,
    /*splits_steps=*/true};

}  // namespace muster::train
