// What to do about memory that ran out, in words of the command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/train/plan/fit_plan.h"
#include "muster/train/replicas/unit_needs.h"

namespace muster::train {

// Note [Advice on memory]
// An advice is named where it can let pass what did not: a hint of six ways, of which five change
// nothing, costs a user five runs. What can be known of that without another run is arithmetic. Of the
// bytes that the rank held some follow the batch (activations, inputs, what backward sends back), and
// the rest does not (weights, gradients, state). A way that makes the first smaller can free a share
// of them; it is left out where that is less than what was missing. And whatever the batch, at the end
// of a backward there are the weights, a gradient of each, and in the optimizer's step its state. A
// step of several pieces (micro-batches of a pipeline, batches that are accumulated, parts of a step
// that --on-oom split makes) adds each piece's gradient of a weight to the one that is there, which
// holds both: autograd hands a gradient over as a whole tensor, also where the sum is made in place.
// Where that is more than the room, no smaller piece helps, and fewer of them do. Buckets that gradients
// travel in are as much once more, from the second step on, and no batch frees them: their order is
// settled by the first step, and the first ones were seen to live on beside those that are made then
// (who holds them is not known).
// These are bounds from below: what is left out cannot help, and what is named may still not be
// enough. Where bytes are not known (a device whose error has no numbers), all ways are named.

/// Bytes of the failed rank's device, as they were when memory ran out.
struct MemoryNeeds {
  double room = 0;              ///< for tensors: held by them, idle or free
  double missing = 0;           ///< of what was asked for
  double weights = 0;           ///< with buffers, and averages of them
  double gradients = 0;         ///< of all weights on this rank that train, one of each
  double largest_gradient = 0;  ///< of one weight
  double spare_buckets = 0;     ///< beside gradients, in steps that are not made again
  double state = 0;             ///< the optimizer's, from its first step on
  bool state_is_held = false;   ///< since an earlier step
  double of_batch = 0;          ///< at most so many follow the batch, what was asked for among them
  bool is_second_gradient = false;  ///< which was asked for
  double inputs = 0;                ///< of these, the batches themselves
};

/// Memory that ran out in a run, as far as advice depends on it.
struct MemoryFailure {
  enum class In {
    kWeights,   ///< the model, on its way to the device
    kParts,     ///< what a strategy holds besides: buckets, shards
    kCut,       ///< a unit that is measured, to find out where the model is cut
    kAverage,   ///< the weights once more, for --ema-decay
    kState,     ///< the optimizer's state of a run that goes on
    kStep,      ///< a forward, or a backward
    kSmallest,  ///< the same, with no more samples at a time than there must be
    kUpdate,    ///< the optimizer's step
  };
  In in = In::kWeights;
  bool has_units = true;  ///< the module has some, which can be run again
  std::optional<int64_t>
      row;                    ///< of how many units a row is that the module is; nothing: not known
  bool sees_batches = false;  ///< some layer looks at all samples of a batch, and trains
  /// What could not be had would have fitted beside smaller batches.
  bool is_room_in_batches = false;
  std::optional<MemoryNeeds> bytes = {};  ///< nothing: not known
  std::vector<UnitNeeds> units = {};      ///< of the row
};

/// What makes a run smaller where it was too large, as far as this one does not do it already, its
/// strategy takes it, and it can be enough: for an error's hint. Pure.
std::string memory_advice(const FitPlan& plan, const MemoryFailure& failure);

}  // namespace muster::train
