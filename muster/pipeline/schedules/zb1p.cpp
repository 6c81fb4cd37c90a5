// 1F1B with backward in halves: what the rank before waits for comes first, weights' gradients fill
// the gaps.
// Source: Qi et al. 2023, "Zero Bubble Pipeline Parallelism" (arXiv 2401.10241), section 2.3
// (ZB-H1), here also over several stages on each rank. With M >= P and W <= F, I a rank is idle for
// (P-1)(F+I-W): a third of 1F1B's when the three are equal. Each rank holds min(V M, (V-1) R + P)
// activations, R as in interleaved: on no rank more than 1F1B's first.
#include <algorithm>

#include "muster/pipeline/schedule/alternating.h"

namespace muster::pipeline {
namespace {

Schedule make_zb1p(const PipelineSizes& sizes, const ParamValues& params) {
  check_param_names({}, params, "pipeline schedule zb1p");
  require_sizes("zb1p", sizes, 1, kAnyNumber);
  const AlternatingRule rule{.warm_up_per_hop = 1, .splits_backward = true};
  Schedule schedule{.lists = alternating_lists(sizes, rule)};
  const int64_t per_rank = sizes.stages / sizes.ranks;
  const int64_t held =
      std::min(per_rank * sizes.micro_batches, (per_rank - 1) * round_length(sizes) + sizes.ranks);
  schedule.in_flight.assign(static_cast<size_t>(sizes.ranks), held);
  schedule.idle_s = [sizes](const StageTimes& times) -> std::optional<double> {
    const auto& [forward, backward, input, weight, a, g, average] = times;
    if (sizes.micro_batches < sizes.ranks || weight > std::min(forward, input)) return {};
    return static_cast<double>(sizes.ranks - 1) * (forward + input - weight);
  };
  return schedule;
}

}  // namespace

extern constinit const ScheduleEntry zb1p_entry{
    "zb1p",
    "1F1B with backward in halves: a third of its bubble, no more activations",
    {},
    1,
    &make_zb1p};

}  // namespace muster::pipeline
