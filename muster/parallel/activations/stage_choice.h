// What the stages of a pipeline's rank do with activations, so that they fit: keep them, run blocks
// again, or let them wait on the host.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/parallel/activations/block_choice.h"

namespace muster::parallel {

// Note [Bytes of stages]
// A stage keeps what its blocks keep (Note [Bytes of blocks]), and what came in and what went out of
// each micro-batch in flight, whoever needs it. Stages of one rank that are run plainly or with
// blocks that run again count as one row of blocks, with the most micro-batches that one of them has
// in flight. An offloaded stage runs no block again; of each micro-batch in flight its ends stay on the
// device, and of one at a time, while it goes out or comes back, everything. To send it out and back
// takes twice its bytes by the bandwidth, for each micro-batch, as if nothing lay beside it.

/// One stage on a rank.
struct BudgetStage {
  std::vector<BlockBytes> blocks;  ///< not empty; costs are seconds of a forward
  int64_t in_flight = 1;  ///< micro-batches between its forward and the end of its backward
};

/// What stages do, by number.
struct StageTreatment {
  std::vector<std::vector<bool>> again;  ///< by block; none of an offloaded stage
  std::vector<bool> offloaded;
  double cost = 0;  ///< seconds of a micro-batch through all of them
};

/// The most that a rank with these stages holds of activations. See Note [Bytes of stages].
int64_t peak_bytes(std::span<const BudgetStage> stages, const StageTreatment& treatment);

/// The cheapest treatment within the budget; of equal ones, one that offloads fewer stages. Nothing if
/// there is none. `offload_bytes_per_s`: between device and host, of one way; 0: nothing is offloaded,
/// as on the CPU. Exact where cheapest_choice() is.
std::optional<StageTreatment> cheapest_treatment(std::span<const BudgetStage> stages,
                                                 int64_t budget_bytes,
                                                 double offload_bytes_per_s = 0);

/// The least budget within which there is a treatment.
int64_t least_budget(std::span<const BudgetStage> stages, double offload_bytes_per_s = 0);

/// The same by a rule's budget. Throws a usage error that says what is needed at least, and what is done
/// with that, if none fits; it names `whose` these are, "stage 1 on rank 1". `hint`: asked for then;
/// empty: the least budget.
StageTreatment treatment_within(std::span<const BudgetStage> stages,
                                int64_t budget_bytes,
                                double offload_bytes_per_s,
                                std::string_view whose = "",
                                const std::function<std::string()>& hint = {});

}  // namespace muster::parallel
