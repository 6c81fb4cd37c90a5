// What a step takes at least, whatever the stages that are not cut yet.
#pragma once

#include <cstdint>
#include <vector>

#include "muster/pipeline/partition/blocks.h"
#include "muster/pipeline/simulate/simulator.h"

namespace muster::pipeline {

// Note [Bounds of a step]
// A step is its longest chain of actions that wait for each other (critical_path). Which chain that
// is depends on the stages' times, but each chain is a lower bound for any times: n F of stage 0, m
// B of stage 1, …, a sum of counts times times. A few chains are looked up, those that are critical
// when all stages are equal and when one is slower, and for each
//   - the least that the blocks from c on add to it, cut into stages k … S-1 in any way: by dynamic
//     programming, exactly;
//   - what follows from the slowest of these stages alone: a chain that has the other stages' times
//     at least `base` times has base times all blocks, and for the slowest stage the rest of its
//     counts, so what the slowest stage adds is least when the slowest is fastest: by dynamic
//     programming over the maximum.
// And some rank has at least the level that the remaining blocks' work reaches when it is poured over
// the ranks that still get a stage.
// The search leaves out every split whose bound is no better than a split that it has.

/// How often a chain has each kind of a stage's times.
struct ChainCounts {
  double forward = 0, backward = 0, input = 0, weight = 0, activation = 0, gradient = 0;

  double of(const StageTimes& times) const {
    return forward * times.forward_s + backward * times.backward_s + input * times.input_s +
           weight * times.weight_s + activation * times.activation_s + gradient * times.gradient_s;
  }
  bool operator==(const ChainCounts&) const = default;
};

using Chain = std::vector<ChainCounts>;  // by stage

/// Lower bounds for all beginnings of splits of the same blocks.
class StepBounds {
 public:
  /// `lists` are those of the simulator.
  StepBounds(const BlockSums& sums, const Simulator& simulator, const ActionLists& lists);

  /// For splits that begin with the stages in `begun`, the last of which ends where `next` begins.
  double at_least(const std::vector<StageTimes>& begun, int64_t next) const;

 private:
  void find_chains(const Simulator& simulator);
  void fill_rests();
  void fill_slowest();
  void count_work(const ActionLists& lists);
  double fullest_rank(const std::vector<StageTimes>& begun, int64_t next) const;
  double slowest_alone(int64_t stage, const StageTimes& times) const;
  size_t cell(int64_t stage, int64_t block) const {
    return static_cast<size_t>(stage * (sums_.count() + 1) + block);
  }
  /// table[stage][block] = the best over ends of combine(cost of the stage, table[stage+1][end])
  template <class Cost, class Combine>
  std::vector<double> best_rests(Cost&& cost, Combine&& combine) const;

  const BlockSums& sums_;
  Placement placement_;
  int64_t stages_;
  Chain work_;  // all that a stage computes in a step
  StageTimes total_;
  std::vector<Chain> chains_;
  std::vector<ChainCounts> bases_;          // by chain: the least of its counts over all stages
  std::vector<std::vector<double>> rests_;  // by chain
  std::vector<double> slowest_;
};

}  // namespace muster::pipeline
