// Where to cut a model into stages.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/pipeline/partition/blocks.h"
#include "muster/pipeline/schedule/schedule.h"

namespace muster::pipeline {

struct PartitionOptions {
  /// By rank, the bytes that it may hold (rank_bytes). Empty: any number.
  std::vector<double> memory_bytes = {};
  /// Beginnings of splits after which the search ends with the best split so far.
  int64_t most_visits = 1'000'000;
};

struct Partition {
  Split first_block;
  double step_s = 0;  ///< simulated
  std::vector<double> rank_bytes;
  bool is_best = true;    ///< false: most_visits came first, there may be better ones
  double at_least_s = 0;  ///< no split is faster; step_s if it is the best
  int64_t steps_simulated = 0;
};

/// The split into contiguous stages with which a step of `lists` (simulated, sends buffered) takes
/// least time among all that fit into the ranks' memory; of several, the first in order of cuts
/// that is found. Nothing if none fits. Every stage gets a block at least. Exact: branch and bound
/// over the cuts, see Note [Bounds of a step]. Throws a usage error for fewer blocks than stages
/// and for costs that make no sense.
std::optional<Partition> partition(std::span<const BlockCosts> blocks,
                                   const ActionLists& lists,
                                   const PartitionOptions& options = {});

}  // namespace muster::pipeline
