// 1F1B with several stages on each rank, looped, so that the pipeline fills and drains V times as
// fast, at V times the transfers.
// Source: Narayanan et al. 2021, Megatron-LM (arXiv 2104.04473), section 2.2. Idle for (P-1)(F+B)
// of a stage's times, which are 1/V of a rank's: (P-1)/(V M) of the work. Rank r holds min(V M,
// (V-1) R + 2(P-1-r) + 1) activations, R the length of a round, P where P divides M. With M < P a
// round is shorter than the way around the ranks: (V-1)(P-M)(F+B) more.
#include <algorithm>

#include "muster/pipeline/schedule/alternating.h"

namespace muster::pipeline {
namespace {

Schedule make_interleaved(const PipelineSizes& sizes, const ParamValues& params) {
  check_param_names({}, params, "pipeline schedule interleaved");
  require_sizes("interleaved", sizes, 2, kAnyNumber);
  Schedule schedule{.lists = alternating_lists(sizes, {.warm_up_per_hop = 2})};
  const int64_t per_rank = sizes.stages / sizes.ranks;
  for (int64_t rank = 0; rank < sizes.ranks; ++rank) {
    const int64_t held = (per_rank - 1) * round_length(sizes) + 2 * (sizes.ranks - 1 - rank) + 1;
    schedule.in_flight.push_back(std::min(held, per_rank * sizes.micro_batches));
  }
  schedule.idle_s = [sizes, per_rank](const StageTimes& times) {
    const int64_t missing = std::max<int64_t>(0, sizes.ranks - sizes.micro_batches);
    return static_cast<double>(sizes.ranks - 1 + (per_rank - 1) * missing) *
           (times.forward_s + times.backward_s);
  };
  return schedule;
}

}  // namespace

extern constinit const ScheduleEntry interleaved_entry{
    "interleaved",
    "1F1B over several stages on each rank: a smaller bubble, more transfers",
    {},
    2,
    &make_interleaved};

}  // namespace muster::pipeline
