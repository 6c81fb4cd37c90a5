// When the actions of a step began and ended, as simulated or as measured.
#pragma once

#include <cstdint>
#include <vector>

#include "muster/pipeline/action/action.h"
#include "muster/pipeline/action/stage_times.h"

namespace muster::pipeline {

struct Span {
  Action action;
  double start_s = 0, end_s = 0;
};

/// One step. Any clock: times count from where they like, the same for all ranks.
struct Timeline {
  std::vector<std::vector<Span>> ranks;  ///< by rank, in the order of the rank's list

  /// From the first start to the last end of all ranks.
  double step_s() const;
  double start_s() const;
  double end_s() const;

  /// The time in which the rank computes (F, B, I, W).
  double busy_s(int64_t rank) const;

  /// The share of the ranks' time, step_s() each, in which they do not compute: the bubble.
  /// (P-1)/(M+P-1) for GPipe and 1F1B.
  double bubble() const;

  /// The longest time that a rank does not compute between its first action's start and its last
  /// one's end: what a schedule costs where ranks need not wait for each other between steps.
  /// Source: arXiv 2401.10241, section 5.
  double idle_s() const;
};

/// What the actions of each stage took, as means over its micro-batches; 0 where it had none. Where
/// backward came in halves, backward_s is their sum. What messages took is not among them.
std::vector<StageTimes> mean_times(const Timeline& timeline, int64_t stages);

/// Whether a rank has actions of several stages.
bool has_virtual_stages(const Timeline& timeline);

}  // namespace muster::pipeline
