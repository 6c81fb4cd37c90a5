// How long the actions of a stage take.
#pragma once

#include "muster/pipeline/action/action.h"

namespace muster::pipeline {

/// Of one stage, for one micro-batch, in seconds or in any unit. The whole backward may well take
/// less than its halves: what both need is computed once.
struct StageTimes {
  double forward_s = 1;
  double backward_s = 2;    ///< B
  double input_s = 1;       ///< I
  double weight_s = 1;      ///< W
  double activation_s = 0;  ///< the transfer of its output to the next stage's rank
  double gradient_s = 0;    ///< the transfer of its input's gradient to the stage before
  double average_s = 0;     ///< REDUCE_GRAD

  /// Of an action of the stage; messages take none of the rank's time.
  double of(ActionKind kind) const;
};

inline double StageTimes::of(ActionKind kind) const {
  switch (kind) {
    case ActionKind::kForward:
      return forward_s;
    case ActionKind::kBackward:
      return backward_s;
    case ActionKind::kBackwardInput:
      return input_s;
    case ActionKind::kBackwardWeight:
      return weight_s;
    case ActionKind::kAverageGradients:
      return average_s;
    default:
      return 0;
  }
}

}  // namespace muster::pipeline
