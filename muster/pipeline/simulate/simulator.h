// How long a step of a schedule takes, computed from the times of its actions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "muster/pipeline/action/action_lists.h"
#include "muster/pipeline/action/stage_times.h"
#include "muster/pipeline/order/dependencies.h"
#include "muster/pipeline/simulate/timeline.h"

namespace muster::pipeline {

/// Simulates the same lists with any times; each run takes time in proportion to the actions. Every
/// action starts as soon as what it waits for is over (Note [What an action waits for]). Transfers
/// do not hinder each other. Any thread.
class Simulator {
 public:
  /// Throws a usage error for lists that cannot be carried out.
  explicit Simulator(const ActionLists& lists, Sends sends = Sends::kBuffered);

  /// One StageTimes per stage, all times finite and at least 0; throws a usage error otherwise.
  Timeline run(std::span<const StageTimes> stages) const;

  /// run(stages).step_s(), without the timeline.
  double step_s(std::span<const StageTimes> stages) const;

  /// The actions of a longest chain, from the first to the last, by index of `dependencies()`: the
  /// step is the sum of their times and of the transfers between them.
  std::vector<int64_t> critical_path(std::span<const StageTimes> stages) const;

  const Dependencies& dependencies() const { return dependencies_; }

 private:
  std::vector<double> ends(std::span<const StageTimes> stages) const;

  Dependencies dependencies_;
  int64_t stages_, ranks_;
};

/// As many equal stages.
std::vector<StageTimes> equal_stages(int64_t count, const StageTimes& times);

}  // namespace muster::pipeline
