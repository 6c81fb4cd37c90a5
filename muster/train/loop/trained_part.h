// What is trained by one optimizer: the whole task, or one of its parts.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/train/plan/precision.h"
#include "muster/train/replicas/strategy.h"

namespace muster::train::detail {

/// One rank's part, with its gradients, optimizer and loss scale. Used by the rank's own thread.
class TrainedPart {
 public:
  /// `name` is empty for the whole. Collective.
  TrainedPart(std::string name, StrategyRequest request);

  const std::string& name() const { return name_; }
  Strategy& strategy() { return *strategy_; }
  optim::Optimizer& optimizer() { return strategy_->optimizer(); }
  LossScaler& scaler() { return scaler_; }
  const LossScaler& scaler() const { return scaler_; }

  /// Whether its parameters, those that are trained, take part in the graphs that come.
  void require_gradients(bool on);

  /// The optimizer's state, under the part's name; nothing on ranks other than 0. Collective.
  tensor::NamedTensorList state();
  /// Takes what is the part's own of a checkpoint's. Collective.
  void load_state(const tensor::NamedTensorList& state);

  /// The communication hooks' state of all ranks, "rank.1/NAME", under the part's name; on rank 0.
  /// Collective.
  tensor::NamedTensorList hook_state(const distributed::ProcessGroup& group);
  /// Takes this rank's own of a checkpoint's. If another number of ranks saved it, each takes the
  /// mean: what is kept for later steps stays the same in sum. Not collective.
  void load_hook_state(const tensor::NamedTensorList& state,
                       const distributed::ProcessGroup& group,
                       int64_t saved_ranks);

 private:
  tensor::NamedTensorList named(tensor::NamedTensorList state) const;

  std::string name_;
  std::vector<at::Tensor> trained_;
  std::unique_ptr<Strategy> strategy_;
  LossScaler scaler_;
};

}  // namespace muster::train::detail
