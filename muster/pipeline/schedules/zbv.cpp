// Two stages on each rank, down the ranks and up again, backward in halves: no bubble when forward
// and both halves take equally long.
// Source: Qi et al. 2023, "Zero Bubble Pipeline Parallelism" (arXiv 2401.10241), section 6 (ZB-V).
// With F = I = W and M >= 2P-1 no rank is idle between its first action and its last; rank r begins
// r F after rank 0, and so much later it ends: the step takes 6 M F + (P-1) F. Rank r holds
// min(2M, 2P, M+r+1) activations, each of half a rank's layers: as many bytes as 1F1B's first rank.
#include <algorithm>

#include "muster/pipeline/schedule/schedule.h"

namespace muster::pipeline {
namespace {

using enum ActionKind;

/// One rank's list under construction. Chunk 0 is the stage on the way down, chunk 1 on the way up.
class ZbvRank {
 public:
  ZbvRank(const PipelineSizes& sizes, int64_t rank)
      : sizes_(sizes), rank_(rank), stage_{rank, sizes.stages - 1 - rank} {}

  std::vector<Action> list() {
    warm_up();
    // Fewer micro-batches than fill the pipeline: the others are left out when they are written.
    const int64_t count = std::max(sizes_.micro_batches, 2 * sizes_.ranks - 1);
    while (next_[1].forward < next_[0].forward || next_[0].forward < count) {
      if (next_[0].forward < count) forward(0);
      backward(0);
      forward(1);
      backward(1);
    }
    cool_down();
    return std::move(out_);
  }

 private:
  struct Next {
    int64_t forward = 0, input = 0, weight = 0;  // micro-batches
  };

  void write(ActionKind kind, int chunk, int64_t micro_batch) {
    if (micro_batch < sizes_.micro_batches) out_.push_back({kind, stage_[chunk], micro_batch});
  }
  void forward(int chunk) { write(kForward, chunk, next_[chunk].forward++); }
  void input(int chunk) { write(kBackwardInput, chunk, next_[chunk].input++); }
  void weight(int chunk) { write(kBackwardWeight, chunk, next_[chunk].weight++); }
  void backward(int chunk) {
    input(chunk);
    weight(chunk);
  }

  /// Until the first backward, which the last stage of all begins, on rank 0.
  void warm_up() {
    for (int64_t i = 0; i < 2 * (sizes_.ranks - rank_) - 1; ++i) forward(0);
    for (int64_t i = 0; i < rank_; ++i) {
      forward(1);
      forward(0);
    }
    for (int64_t i = 0; i < sizes_.ranks - rank_; ++i) {
      forward(1);
      backward(1);
    }
  }

  /// Inputs' gradients first, as others wait for them.
  void cool_down() {
    for (int64_t i = 0; i < rank_; ++i) {
      input(0);
      input(1);
    }
    for (int64_t i = 0; i < sizes_.ranks - rank_; ++i) backward(0);
    while (next_[1].weight < next_[1].input) weight(1);
    while (next_[0].weight < next_[0].input) weight(0);
  }

  PipelineSizes sizes_;
  int64_t rank_;
  int64_t stage_[2];
  Next next_[2];
  std::vector<Action> out_;
};

Schedule make_zbv(const PipelineSizes& sizes, const ParamValues& params) {
  check_param_names({}, params, "pipeline schedule zbv");
  require_sizes("zbv", sizes, 2, 2);
  Schedule schedule{.lists = {Placement::v_shaped(sizes.ranks), sizes.micro_batches, {}}};
  for (int64_t rank = 0; rank < sizes.ranks; ++rank) {
    schedule.lists.ranks.push_back(ZbvRank(sizes, rank).list());
    schedule.in_flight.push_back(
        std::min({2 * sizes.micro_batches, 2 * sizes.ranks, sizes.micro_batches + rank + 1}));
  }
  schedule.idle_s = [sizes](const StageTimes& times) -> std::optional<double> {
    const bool equal = times.forward_s == times.input_s && times.input_s == times.weight_s;
    if (!equal || sizes.micro_batches < 2 * sizes.ranks - 1) return {};
    return 0.0;
  };
  return schedule;
}

}  // namespace

extern constinit const ScheduleEntry zbv_entry{
    "zbv", "two stages on each rank, there and back: no bubble for equal halves", {}, 2, &make_zbv};

}  // namespace muster::pipeline
