// A pipeline within a budget of activations: what its stages do, and which cut is best then.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/parallel/activations/block_choice.h"
#include "muster/parallel/activations/stage_choice.h"
#include "muster/pipeline/partition/blocks.h"
#include "muster/pipeline/partition/plan.h"

namespace muster::train::detail {

/// What a micro-batch costs in each unit, and what it keeps there.
struct UnitCosts {
  std::vector<pipeline::BlockCosts> plain, again;  ///< run plainly, and once more in backward
  std::vector<parallel::BlockBytes> bytes;         ///< run plainly; costs are seconds of a forward
  double offload_bytes_per_s = 0;                  ///< one way; 0: nothing waits on the host
};

/// What a budget is of: the stages of a rank, or one of them.
struct BudgetShare {
  int64_t rank = 0;
  std::vector<int64_t> numbers;  // of its stages
  int64_t bytes = 0;
  std::vector<parallel::BudgetStage> stages;
};

/// By rank, or by stage where the budget says one for each. `bytes`: of the units.
std::vector<BudgetShare> shares_of(const parallel::BlockRule& budget,
                                   const pipeline::Split& first_block,
                                   const pipeline::ActionLists& lists,
                                   std::span<const parallel::BlockBytes> bytes);

/// What is checkpointed, by unit, and offloaded, by stage.
struct UnitTreatment {
  UnitTreatment(size_t units, size_t stages) : checkpointed(units), offloaded(stages) {}
  /// What the share's stages do.
  void take(const BudgetShare& share,
            const pipeline::Split& first_block,
            const parallel::StageTreatment& made);
  bool is_any() const;

  std::vector<bool> checkpointed, offloaded;
  std::vector<int64_t> held;  ///< the most that each share has then, in their order
};

/// What each share does that is cheapest within its budget; nothing if there is no such thing.
std::optional<UnitTreatment> treatment_of(std::span<const BudgetShare> shares,
                                          const pipeline::Split& first_block,
                                          const UnitCosts& units);

/// What a stage of blocks `first` to `last` costs whose activations wait on the host: its ends stay,
/// and all of one micro-batch is there while it goes out or comes back. See Note [Bytes of stages].
void let_wait_on_host(std::vector<pipeline::BlockCosts>& costs,
                      size_t first,
                      size_t last,
                      const std::vector<parallel::BlockBytes>& bytes,
                      double bytes_per_s);

/// How much of what a rank has it takes, of the rank of which that is most; 0 without rooms.
double share_of_room(std::span<const double> rank_bytes, std::span<const double> room);

/// How many cuts there are; at most `most`.
int64_t count_of_cuts(int64_t units, int64_t stages, int64_t most);

/// A cut, and what its shares may hold, in their order: what the budget allows, or less where a rank has
/// no room for that; empty where the budget is too small for any cut.
struct CutWithin {
  pipeline::Split first_block;
  std::vector<int64_t> share_bytes;
};

/// Of all cuts, looked at one by one, the one with which a step is shortest, each with what is cheapest
/// within the budget, among those for which the ranks have room; if there are none, the one that wants
/// least more. If the budget is too small for each: the one that needs least on a rank.
CutWithin best_cut_within(const parallel::BlockRule& budget,
                          const std::string& schedule,
                          const pipeline::PipelineSizes& sizes,
                          const UnitCosts& units,
                          const std::vector<double>& room);

}  // namespace muster::train::detail
