// A task's step in two halves: up to its module's first unit, and from the last one on.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "muster/tensor/unit_call.h"
#include "muster/train/task/task.h"

namespace muster::train {

// Note [Steps around a chain]
// A task's step is one function: from a batch through its module to a loss. Where other ranks have
// some of the module's units, the first rank needs what comes before the units and the last one what
// comes behind. Both are had by calling the step and answering for the units: the first time a unit
// is called the step is left, with what the unit was to get; and behind, no unit runs, each gives
// back what it got, and the last one what the pipeline made. A model that computes between its units
// would lose that; it is noticed, since a unit then gets another tensor than the one before gave.

using Pass = std::function<StepResult()>;

/// The names of a module's chain, and a step around it. One thread at a time.
class ChainCalls {
 public:
  explicit ChainCalls(std::vector<std::string> units) : units_(std::move(units)) {}

  /// What `pass` gives to the first unit; nothing is computed. Throws a usage error if it calls
  /// another unit first, or none.
  std::vector<at::Tensor> inputs_of(const Pass& pass) const;

  /// `pass` as if the units had made `outputs` of what they get. Throws a usage error if it calls
  /// them otherwise than as the chain says.
  StepResult with_outputs(std::vector<at::Tensor> outputs, const Pass& pass) const;

 private:
  std::vector<std::string> units_;
};

}  // namespace muster::train
