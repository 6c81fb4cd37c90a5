// A module as it is asked, not trained.
#pragma once

#include <torch/nn/module.h>

#include "muster/distributed/process_group.h"
#include "muster/train/replicas/strategy.h"

namespace muster::train {

/// Evaluation mode, with rank 0's buffers on every rank, or the first replica's, as DDP's forward
/// would make them. Puts the
/// mode back, whatever happens.
class EvaluationMode {
 public:
  /// `strategy`: the module's, or null. Collective.
  EvaluationMode(torch::nn::Module& module,
                 const distributed::ProcessGroup& group,
                 Strategy* strategy = nullptr)
      : module_(module), was_training_(module.is_training()) {
    const bool are_shared = strategy != nullptr && strategy->shares_buffers();
    if (!are_shared && group.world_size() > 1) {
      for (const at::Tensor& buffer : module.buffers()) group.broadcast(buffer);
    }
    module_.eval();
  }
  ~EvaluationMode() { module_.train(was_training_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  torch::nn::Module& module_;
  bool was_training_;
};

}  // namespace muster::train
