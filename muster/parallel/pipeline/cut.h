// A list of blocks, cut into stages.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "muster/parallel/pipeline/block.h"
#include "muster/parallel/pipeline/stage.h"
#include "muster/pipeline/action/action_lists.h"
#include "muster/pipeline/order/lower.h"
#include "muster/pipeline/partition/blocks.h"

namespace muster::parallel {

/// Where a stage is.
struct StagePlace {
  c10::Device device;
  bool shares_device = false;  ///< with another rank
};

/// The stages, by number; nothing is moved yet. `first_block` is whole (split_of), `checkpointed`
/// has a word for each block or none, `offloaded` for each stage or none. Throws a usage error for blocks of one name, a tensor that two
/// stages have, and checkpointed blocks that could not draw the same again where they are.
std::vector<Stage> cut(const std::vector<Block>& blocks,
                       const pipeline::Split& first_block,
                       const std::vector<bool>& checkpointed,
                       const std::vector<StagePlace>& places,
                       const std::vector<bool>& offloaded = {});

/// What the ranks do, with messages, by the number of micro-batches. One thread.
class StepLists {
 public:
  StepLists(std::string schedule, int64_t stages, int64_t ranks, pipeline::Sends sends);
  /// Throws a usage error for a schedule that there is not, or not for as many.
  const pipeline::ActionLists& of(int64_t micro_batches);

 private:
  std::string schedule_;
  int64_t stages_, ranks_;
  pipeline::Sends sends_;
  std::map<int64_t, pipeline::ActionLists> lists_;
};

/// The forwards of the lists, and what they send.
pipeline::ActionLists forward_part(pipeline::ActionLists lists);

/// Outputs of the micro-batches, by row.
Tensors put_together(const std::vector<Tensors>& parts);

}  // namespace muster::parallel
