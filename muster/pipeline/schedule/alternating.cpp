#include "muster/pipeline/schedule/alternating.h"

#include <algorithm>

namespace muster::pipeline {
namespace {

struct Passes {
  std::vector<Action> forwards, backwards;  // of one rank, in order
};

Passes passes_of(const PipelineSizes& sizes, int64_t rank, ActionKind backward) {
  const int64_t rounds = std::max<int64_t>(1, sizes.micro_batches / sizes.ranks);
  const int64_t per_rank = sizes.stages / sizes.ranks;
  Passes out;
  int64_t first = 0;
  for (int64_t round = 0; round < rounds; ++round) {
    const int64_t longer = round < sizes.micro_batches % rounds ? 1 : 0;
    const int64_t end = first + sizes.micro_batches / rounds + longer;
    for (int64_t chunk = 0; chunk < per_rank; ++chunk) {
      for (int64_t m = first; m < end; ++m) {
        out.forwards.push_back({ActionKind::kForward, chunk * sizes.ranks + rank, m});
        out.backwards.push_back({backward, (per_rank - 1 - chunk) * sizes.ranks + rank, m});
      }
    }
    first = end;
  }
  return out;
}

Action weights_of(const Action& input) {
  return {ActionKind::kBackwardWeight, input.stage, input.micro_batch};
}

}  // namespace

int64_t round_length(const PipelineSizes& sizes) {
  const int64_t rounds = std::max<int64_t>(1, sizes.micro_batches / sizes.ranks);
  return (sizes.micro_batches + rounds - 1) / rounds;
}

int64_t warm_up(const PipelineSizes& sizes, int64_t rank, const AlternatingRule& rule) {
  const int64_t per_rank = sizes.stages / sizes.ranks;
  const int64_t wanted =
      (per_rank - 1) * round_length(sizes) + rule.warm_up_per_hop * (sizes.ranks - 1 - rank);
  return std::min(wanted, per_rank * sizes.micro_batches);
}

ActionLists alternating_lists(const PipelineSizes& sizes, const AlternatingRule& rule) {
  ActionLists lists{Placement::looped(sizes.stages, sizes.ranks), sizes.micro_batches, {}};
  const auto backward = rule.splits_backward ? ActionKind::kBackwardInput : ActionKind::kBackward;
  for (int64_t rank = 0; rank < sizes.ranks; ++rank) {
    const auto [forwards, backwards] = passes_of(sizes, rank, backward);
    auto forward = forwards.begin() + warm_up(sizes, rank, rule);
    std::vector<Action> actions(forwards.begin(), forward);
    size_t weights = 0;
    for (size_t i = 0; i < backwards.size(); ++i) {
      if (forward != forwards.end()) actions.push_back(*forward++);
      actions.push_back(backwards[i]);
      if (rule.splits_backward && static_cast<int64_t>(i) >= rank)
        actions.push_back(weights_of(backwards[weights++]));
    }
    while (rule.splits_backward && weights < backwards.size())
      actions.push_back(weights_of(backwards[weights++]));
    lists.ranks.push_back(std::move(actions));
  }
  return lists;
}

}  // namespace muster::pipeline
