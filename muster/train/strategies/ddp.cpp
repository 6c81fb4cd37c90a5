// Ranks that are processes. Source: Li et al. 2020, "PyTorch Distributed"; see
// muster/parallel/ddp/ddp.h.
#include "muster/train/replicas/ddp_strategy.h"

namespace muster::train {

extern constinit const StrategyEntry ddp_entry{
    "ddp",
    "a replica per process (`muster run`); gradients averaged during backward",
    RankSource::kProcesses,
    detail::kDdpParams,
    [](const FitOptions& options, const FitNumbers& numbers, const ParamValues& params) {
      detail::check_split_replicas(options, numbers);
      detail::ddp_options(options, params, "strategy ddp");
    },
    [](StrategyRequest request, const ParamValues& params) {
      return detail::make_ddp(std::move(request), params, "strategy ddp");
    },
    /*takes_whole_task=*/false,
    /*recomputes_units=*/false,
    /*takes_comm_hook=*/true,
    /*ranks_per_replica=*/nullptr,
    /*places_units=*/false,
    /*check_module=*/nullptr,
    /*splits_steps=*/true};

}  // namespace muster::train
