// What 1F1B, its interleaved form and ZB1P have in common: some forwards, then forward and backward
// in turn, then the remaining backwards.
#pragma once

#include <cstdint>
#include <vector>

#include "muster/pipeline/schedule/schedule.h"

namespace muster::pipeline {

// Note [Rounds of micro-batches]
// With V stages on a rank the micro-batches go in rounds: a round's forwards on the rank's first
// stage, then on its second, …; its backwards from the last stage to the first. There are max(1, M
// / P) rounds, as even as can be, the larger ones first, so each is at least as long as a
// micro-batch takes around the ranks, if there are so many. PyTorch makes the same rounds where
// they are equal, and refuses other M.

struct AlternatingRule {
  int64_t warm_up_per_hop = 1;   ///< forwards more for each rank that comes behind
  bool splits_backward = false;  ///< I, and W from the rank's own number of backwards on
};

/// Micro-batches in the first round, the longest.
int64_t round_length(const PipelineSizes& sizes);

/// Forwards before the first backward, but the one right before it.
int64_t warm_up(const PipelineSizes& sizes, int64_t rank, const AlternatingRule& rule);

/// The lists of all ranks. Stages are looped; see require_sizes.
ActionLists alternating_lists(const PipelineSizes& sizes, const AlternatingRule& rule);

}  // namespace muster::pipeline
