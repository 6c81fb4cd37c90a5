// A task's step in two halves: up to its module's first unit, and from the last one on.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include "muster/tensor/unit_call.h"
#include "muster/train/task/task.h"

namespace muster::train {

// Note [Steps around a chain]
// A task's step is one function: from a batch through its module to a loss. Where other ranks have
// some of the module's units, the first rank needs what comes before the units and the last one what
// comes behind. Both are had by calling the step and answering for the units: the first time a unit
// is called the step is left, with what the unit was to get; and behind, no unit runs, each gives
// undefined tensors, and the last one what the pipeline made. So whatever a model computes between
// its units fails there, in place or not, and is refused.
//
// What comes before the units is computed on both ranks. So that it draws the same on both (noise on
// the inputs, which samples are mixed), it draws from a seed that both know; units and what comes
// behind them draw as the rank does.

using Pass = std::function<StepResult()>;

/// A step around a module's chain. One thread at a time.
class ChainCalls {
 public:
  /// `generator`: what the task draws from; there may be none.
  ChainCalls(std::vector<std::string> units, at::Generator generator)
      : units_(std::move(units)), generator_(std::move(generator)) {}

  /// What `pass` gives to the first unit; nothing behind that is computed. `seed`: of this pass, the
  /// same on the ranks that make it. Throws a usage error if it calls another unit first, or none.
  std::vector<at::Tensor> inputs_of(const Pass& pass, uint64_t seed) const;

  /// `pass` as if the units had made `outputs` of what they get. Throws a usage error if it calls
  /// them otherwise than as the chain says, or computes between them.
  StepResult with_outputs(std::vector<at::Tensor> outputs, const Pass& pass, uint64_t seed) const;

 private:
  std::vector<std::string> units_;
  at::Generator generator_;
};

}  // namespace muster::train
