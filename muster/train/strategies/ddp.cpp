// Ranks that are processes. Source: Li et al. 2020, "PyTorch Distributed"; see
// muster/parallel/ddp/ddp.h.
#include "muster/train/replicas/ddp_strategy.h"

namespace muster::train {

extern constinit const StrategyEntry ddp_entry{
    .name = "ddp",
    .help = "a replica per process (`muster run`); gradients averaged during backward",
    .ranks = RankSource::kProcesses,
    .params = detail::kDdpParams,
    .check =
        [](const FitOptions& options, const FitNumbers& numbers, const ParamValues& params) {
          detail::check_split_replicas(options, numbers);
          detail::ddp_options(options, params, "strategy ddp");
        },
    .make =
        [](StrategyRequest request, const ParamValues& params) {
          return detail::make_ddp(std::move(request), params, "strategy ddp");
        },
    .takes_comm_hook = true,
    .splits_steps = true,
    .fills_buckets = true};

}  // namespace muster::train
