// One forward, one backward in turn, as soon as the first backward can come.
// Source: Narayanan et al. 2019, "PipeDream", section 3.2, with the weights updated once a step
// (PipeDream-Flush, arXiv 2006.09503). Rank r is idle for (P-1)(F+B) of a step, as with GPipe, and
// holds min(M, P-r) activations instead of M. Eager: Zhuang et al. 2022 (arXiv 2211.05322), section
// 4: twice the warm-up, so that transfers lie beside computation; min(M, 2(P-1-r)+1) activations.
#include <algorithm>

#include "muster/pipeline/schedule/alternating.h"

namespace muster::pipeline {
namespace {

struct OneFOneBOptions {
  bool eager = false;  ///< twice the warm-up
};

constexpr Param kOneFOneBParams[] = {
    param<&OneFOneBOptions::eager>("eager", "twice the warm-up: hides transfers, holds more")};

Schedule make_one_f_one_b(const PipelineSizes& sizes, const ParamValues& params) {
  const auto options =
      resolve_params<OneFOneBOptions>(kOneFOneBParams, params, "pipeline schedule 1f1b");
  require_sizes("1f1b", sizes, 1, 1);
  const AlternatingRule rule{.warm_up_per_hop = options.eager ? 2 : 1};
  Schedule schedule{.lists = alternating_lists(sizes, rule)};
  for (int64_t rank = 0; rank < sizes.ranks; ++rank) {
    const int64_t hops = sizes.ranks - 1 - rank;
    schedule.in_flight.push_back(std::min(sizes.micro_batches, rule.warm_up_per_hop * hops + 1));
  }
  schedule.idle_s = [sizes](const StageTimes& times) {
    return static_cast<double>(sizes.ranks - 1) * (times.forward_s + times.backward_s);
  };
  return schedule;
}

}  // namespace

extern constinit const ScheduleEntry one_f_one_b_entry{
    "1f1b",
    "one forward, one backward: GPipe's speed, far fewer activations",
    kOneFOneBParams,
    1,
    &make_one_f_one_b};

}  // namespace muster::pipeline
