// Which rank has which stages of a pipeline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::pipeline {

/// Each stage is on one rank, and each rank has a stage. A rank with several stages has *virtual
/// stages* (Megatron-LM) or *model chunks*.
class Placement {
 public:
  Placement() = default;

  /// `rank_of_stage[s]` is stage s's rank. Throws a usage error unless the ranks are 0 … P-1, each
  /// at least once.
  explicit Placement(std::vector<int64_t> rank_of_stage);

  /// Stage s on rank s mod `ranks`: 0 1 2 0 1 2. Megatron-LM's interleaved stages.
  static Placement looped(int64_t stages, int64_t ranks);

  /// Down the ranks and up again, two stages each: 0 1 2 2 1 0. The first and the last stage share
  /// a rank. ZBV's.
  static Placement v_shaped(int64_t ranks);

  int64_t stages() const { return static_cast<int64_t>(rank_of_stage_.size()); }
  int64_t ranks() const { return ranks_; }
  int64_t rank_of(int64_t stage) const { return rank_of_stage_.at(static_cast<size_t>(stage)); }
  std::vector<int64_t> stages_of(int64_t rank) const;

  /// Whether what stage s makes goes to another rank. False at the last stage.
  bool crosses_after(int64_t stage) const {
    return stage + 1 < stages() && rank_of(stage) != rank_of(stage + 1);
  }

  bool operator==(const Placement&) const = default;

 private:
  std::vector<int64_t> rank_of_stage_;
  int64_t ranks_ = 0;
};

}  // namespace muster::pipeline
