// What the units of a pipeline cost, and what is best by that.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/parallel/activations/block_choice.h"
#include "muster/parallel/pipeline/block.h"
#include "muster/pipeline/partition/plan.h"
#include "muster/train/replicas/chain_calls.h"
#include "muster/train/replicas/pipeline_cut.h"
#include "muster/train/replicas/pipeline_treatment.h"
#include "muster/train/replicas/strategy.h"

namespace muster::train::detail {

/// What the units of a module cost: measured on this rank's device, one unit after the other, so that
/// no device has to hold more than one at work.
class PipelineMeasurements {
 public:
  /// `checkpointed`: units of which that is known before the cut, by number; empty: none.
  PipelineMeasurements(const std::vector<parallel::Block>& blocks,
                       const StrategyRequest& request,
                       int64_t ranks,
                       std::vector<bool> checkpointed)
      : blocks_(blocks),
        request_(request),
        ranks_(ranks),
        checkpointed_(std::move(checkpointed)),
        calls_(names_of(blocks), request.generator) {}

  struct Found {
    std::string schedule;
    int64_t micro_batches = 0;
    pipeline::Split first_block;
    double times_room = 1;  // of PipelineCut
    std::string forecast;   // of PipelineCut
    std::vector<StageAccount> predicted;
    double share_of_room = 0;  ///< of the rank that has least left; 0: rooms are not known
  };
  /// With which a step is shortest, of those for which ranks have room enough; if there are none, of
  /// those that want least more than there is (within 1 %).
  Found fastest(const PipelineStrategyOptions& options, const std::vector<double>& room);
  /// With which ranks need least of their rooms (within 1 %), if that is less than `chosen` needs and
  /// rooms are known. Of very many cuts some are overlooked.
  std::optional<Found> least(const PipelineStrategyOptions& options,
                             const std::vector<double>& room,
                             const Found& chosen);
  /// What is checkpointed, by unit, and offloaded, by stage.
  struct Treated {
    std::vector<bool> checkpointed, offloaded;
    std::vector<parallel::BlockBytes> bytes;  ///< of the units, run plainly
    double offload_bytes_per_s = 0;           ///< one way
  };
  /// The cut with which a step is shortest within such a budget: `cut` itself where nothing is treated in
  /// it, and where there are more than kMostCuts. Of budgets too small for any cut the one that a hint is
  /// best about. Its schedule and number of micro-batches stay. within() of that cut treats what ranks have
  /// no room for, though the budget allows it.
  pipeline::Split cut_within(const parallel::BlockRule& budget,
                             const PipelineCut& cut,
                             const std::vector<double>& room);
  /// What is cheapest by measured times within a budget of bytes of each rank, or of each stage, all
  /// micro-batches together that its schedule has in flight there. Throws a usage error for budgets of
  /// another number of stages.
  Treated within(const parallel::BlockRule& budget, const PipelineCut& cut);
  /// The cut with what is treated in it, which is measured once more; `times_room` of the ranks' room,
  /// which may be empty.
  Found treated(const PipelineCut& cut,
                const Treated& treatment,
                const std::vector<double>& room) const;

 private:
  static constexpr uint64_t kExampleSeed = 1;

  pipeline::PlanChoices choices(const PipelineStrategyOptions& options) const;
  /// The fastest of these within memory. Throws what a unit ran out of memory with, where it did for each
  /// number of micro-batches.
  std::optional<pipeline::PipelinePlan> plan_within(const pipeline::PlanChoices& choices,
                                                    const pipeline::PartitionOptions& memory);
  /// Measured once for each number.
  const std::vector<pipeline::BlockCosts>& costs(int64_t micro_batches);
  std::vector<pipeline::BlockCosts> measure(int64_t micro_batches,
                                            const std::vector<bool>& checkpointed) const;
  /// Likewise, with the times of costs().
  const std::vector<parallel::BlockBytes>& bytes(int64_t micro_batches);
  std::vector<parallel::BlockBytes> weigh(int64_t micro_batches) const;
  double offload_bytes_per_s(const parallel::BlockRule& budget);
  double measured_bytes_per_s() const;
  int64_t rows_of(int64_t micro_batches) const {
    const int64_t batch = request_.plan.batch_per_rank;
    return std::max(std::min<int64_t>(2, batch), (batch + micro_batches - 1) / micro_batches);
  }

  const std::vector<parallel::Block>& blocks_;
  const StrategyRequest& request_;
  int64_t ranks_;
  std::vector<bool> checkpointed_;
  ChainCalls calls_;
  std::map<int64_t, std::vector<pipeline::BlockCosts>> costs_;  // by micro-batches; none: no room
  std::map<int64_t, std::vector<parallel::BlockBytes>> bytes_;  // by micro-batches
  std::optional<double> host_bytes_per_s_;
  std::optional<CutWithin> cut_within_;
};

}  // namespace muster::train::detail
