#include "muster/pipeline/action/placement.h"

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::pipeline {
namespace {

void require_places(int64_t stages, int64_t ranks) {
  if (ranks >= 1 && stages >= ranks) return;
  throw usage_error({.refused = "stages cannot be placed on the ranks",
                     .rule = "there is at least one rank, and each has at least one stage",
                     .value = concat(stages, " stages, ", ranks, " ranks")});
}

}  // namespace

Placement::Placement(std::vector<int64_t> rank_of_stage)
    : rank_of_stage_(std::move(rank_of_stage)) {
  for (const int64_t rank : rank_of_stage_) ranks_ = std::max(ranks_, rank + 1);
  require_places(stages(), ranks_);
  std::vector<bool> has_stage(static_cast<size_t>(ranks_));
  for (const int64_t rank : rank_of_stage_) {
    if (rank < 0)
      throw usage_error({.refused = "a stage is on no rank",
                         .rule = "ranks count from 0",
                         .value = std::to_string(rank)});
    has_stage[static_cast<size_t>(rank)] = true;
  }
  const auto none = std::ranges::find(has_stage, false);
  if (none != has_stage.end())
    throw usage_error({.refused = concat("rank ", none - has_stage.begin(), " has no stage"),
                       .rule = "each rank of a pipeline has at least one stage"});
}

Placement Placement::looped(int64_t stages, int64_t ranks) {
  require_places(stages, ranks);
  std::vector<int64_t> rank_of_stage;
  for (int64_t stage = 0; stage < stages; ++stage) rank_of_stage.push_back(stage % ranks);
  return Placement(std::move(rank_of_stage));
}

Placement Placement::v_shaped(int64_t ranks) {
  require_places(2 * ranks, ranks);
  std::vector<int64_t> rank_of_stage;
  for (int64_t rank = 0; rank < ranks; ++rank) rank_of_stage.push_back(rank);
  for (int64_t rank = ranks; rank-- > 0;) rank_of_stage.push_back(rank);
  return Placement(std::move(rank_of_stage));
}

std::vector<int64_t> Placement::stages_of(int64_t rank) const {
  std::vector<int64_t> out;
  for (int64_t stage = 0; stage < stages(); ++stage) {
    if (rank_of(stage) == rank) out.push_back(stage);
  }
  return out;
}

}  // namespace muster::pipeline
