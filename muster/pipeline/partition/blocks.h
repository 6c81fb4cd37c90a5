// What a block of a model costs, and what a stage of several costs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "muster/pipeline/action/action_lists.h"
#include "muster/pipeline/action/stage_times.h"
#include "muster/pipeline/simulate/simulator.h"

namespace muster::pipeline {

/// One block of a model, a place before and behind which it may be cut; for one micro-batch.
struct BlockCosts {
  double forward_s = 0;
  double backward_s = 0;  ///< the whole backward
  double input_s = 0;     ///< its two halves, for schedules that split it
  double weight_s = 0;
  double activation_s = 0;      ///< transfer of its output, if the next block is on another rank
  double gradient_s = 0;        ///< transfer of its output's gradient, likewise
  double activation_bytes = 0;  ///< held from its forward to its backward (of the input)
  double kept_bytes = 0;        ///< of these, what its weights' gradients need
  double caught_bytes = 0;      ///< gradients that the backward of the input leaves for its weights
  double work_bytes = 0;        ///< beside all these while it runs
  double input_bytes = 0;       ///< held beside activation_bytes where a stage begins with it
  double output_bytes = 0;      ///< the same where a stage ends with it
  double parameter_bytes = 0;   ///< held always: parameters, gradients, optimizer state
  // Where the next block is another stage's. See Note [Letters wait].
  double handed_bytes = 0;    ///< of its output, which is the next stage's input
  double gradient_bytes = 0;  ///< of its output's gradient
};

// Note [The first stage]
// A model's inputs are data, which need no gradient. Where a schedule splits the backward, that of the
// first stage's input ends behind its first block: the output of that block is held until then, even
// where neither it nor the next one keeps it.

/// Where each stage begins: stage s has blocks first[s] … first[s+1]-1, the last one those to the
/// end.
using Split = std::vector<int64_t>;

/// What a schedule makes of a stage.
struct StageSetting {
  /// With the stage before, on the same rank: what that one keeps as its output is what this one
  /// keeps as its input, and counted there.
  bool shares_input = false;
  bool splits_backward = false;  ///< into I and W
};

/// Sums over blocks, for any stretch in constant time. Any thread.
class BlockSums {
 public:
  /// Throws a usage error for a cost that is negative or not finite.
  explicit BlockSums(std::span<const BlockCosts> blocks);

  int64_t count() const { return static_cast<int64_t>(blocks_.size()); }

  /// Of a stage with blocks begin … end-1.
  StageTimes times(int64_t begin, int64_t end) const;
  StageBytes bytes(int64_t begin, int64_t end, const StageSetting& setting = {}) const;
  double parameter_bytes(int64_t begin, int64_t end) const;

 private:
  double first_output() const;

  std::vector<BlockCosts> blocks_;
  std::vector<BlockCosts> before_;  // sums of the blocks before each; one more than blocks
};

/// `splits_backward`: lists.splits_backward(), which looks through them all.
StageSetting setting_of(const ActionLists& lists, int64_t stage, bool splits_backward);

/// One StageTimes for each stage of the split.
std::vector<StageTimes> stage_times(const BlockSums& sums, const Split& split);

/// The most that each rank holds: its parameters, activations as its list has them in flight, and
/// letters as they wait in the simulated step (Note [Letters wait]).
std::vector<double> rank_bytes(const BlockSums& sums, const Split& split, const ActionLists& lists);
/// The same with the lists' simulator, which is made once for many splits.
std::vector<double> rank_bytes(const BlockSums& sums,
                               const Split& split,
                               const ActionLists& lists,
                               const Simulator& simulator);

}  // namespace muster::pipeline
