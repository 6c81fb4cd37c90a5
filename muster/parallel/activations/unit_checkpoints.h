// A model's units, some of them run again in backward: activation checkpointing from outside.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "muster/parallel/activations/block_choice.h"
#include "muster/parallel/activations/recomputation.h"
#include "muster/tensor/unit_call.h"

namespace muster::parallel {

// Note [Units within a budget]
// A budget is of the bytes that blocks keep, which depend on the batch; so they are measured in the
// first forward with gradients. There each unit runs twice, the first time to be measured, and all
// are checkpointed: no more than one unit's activations are there at a time. Random numbers and
// running statistics are those of one run.

/// In a scope around a model's forward it has units by `rule` recomputed in backward; see
/// checkpointed(). Inside of it may be the scope of weights in shards. One thread.
class UnitCheckpoints final : public tensor::UnitCalls {
 public:
  /// `units`: the model's, in the order in which it calls them. `options`: its generators.
  UnitCheckpoints(const BlockRule& rule,
                  std::vector<tensor::Unit> units,
                  RecomputeOptions options = {});

  /// Throws a usage error, under a budget, for a unit of several tensors and where no choice is
  /// within the budget.
  std::vector<at::Tensor> call(std::string_view unit,
                               const tensor::UnitForward& forward,
                               const std::vector<at::Tensor>& inputs) override;

  /// Which units are run again, by number; nothing while a budget waits for the first forward.
  const std::optional<std::vector<bool>>& choice() const { return choice_; }

 private:
  void measure(size_t unit,
               const tensor::UnitForward& forward,
               const std::vector<at::Tensor>& inputs);

  BlockRule rule_;
  std::vector<tensor::Unit> units_;
  RecomputeOptions options_;
  std::vector<std::optional<BlockBytes>> measured_;  // by unit
  std::optional<std::vector<bool>> choice_;
};

}  // namespace muster::parallel
