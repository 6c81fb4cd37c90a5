// All forwards, then all backwards.
// Source: Huang et al. 2019, "GPipe" (arXiv 1811.06965), section 2. Every rank is idle for
// (P-1)(F+B) of a step, (P-1)/(M+P-1) of it, and holds all M activations.
#include "muster/pipeline/schedule/schedule.h"

namespace muster::pipeline {
namespace {

Schedule make_gpipe(const PipelineSizes& sizes, const ParamValues& params) {
  check_param_names({}, params, "pipeline schedule gpipe");
  require_sizes("gpipe", sizes, 1, 1);
  ActionLists lists{Placement::looped(sizes.stages, sizes.ranks), sizes.micro_batches, {}};
  for (int64_t rank = 0; rank < sizes.ranks; ++rank) {
    auto& actions = lists.ranks.emplace_back();
    for (const ActionKind kind : {ActionKind::kForward, ActionKind::kBackward}) {
      for (int64_t m = 0; m < sizes.micro_batches; ++m) actions.push_back({kind, rank, m});
    }
  }
  return {std::move(lists),
          std::vector<int64_t>(static_cast<size_t>(sizes.ranks), sizes.micro_batches),
          [sizes](const StageTimes& times) {
            return static_cast<double>(sizes.ranks - 1) * (times.forward_s + times.backward_s);
          }};
}

}  // namespace

extern constinit const ScheduleEntry gpipe_entry{
    "gpipe", "all forwards, then all backwards", {}, 1, &make_gpipe};

}  // namespace muster::pipeline
