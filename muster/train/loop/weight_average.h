// --ema-decay: an average of the weights that the steps make, which is what is validated and tested.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "muster/tensor/named_tensors.h"

namespace muster::train {

// Note [Averaged weights]
// average <- decay * average + (1 - decay) * weights after each optimizer step that was made; the
// first one copies. Parameters and, unless --ema-buffers copy, buffers, as AveragedModel with
// get_ema_multi_avg_fn and use_buffers, to the bit, but for what has no mean: whole numbers
// (num_batches_tracked) and buffers with infinities (masks) are copied. A step that a loss scale
// leaves out makes no weights, and moves nothing; Lightning and timm average the old ones once more.
// Weights of 16 bits are averaged in float32, since (1 - decay) of a difference is less than their
// last bit. Each rank keeps the average of what it holds: where weights are whole, parameters are
// alike on all, and of buffers those of rank 0 count, which an evaluation gives to all; where a strategy
// shards them, of its shard or its stages, and checkpoints put the whole together. Validation, the best epoch and the test are of the
// averages, as Lightning's WeightAveraging has it; training and --resume go on with the weights.

/// One rank's average of a module's weights. Used by the rank's own thread.
class WeightAverage {
 public:
  /// What of the module this rank holds: by its names, the same in each call, with memory of the
  /// module, or of pieces of it.
  using OwnWeights = std::function<tensor::NamedTensorList()>;

  /// `module` outlives this. 0 < decay < 1. Without `own` the rank holds all of it. `written` hears
  /// that what `own` gave was written to.
  WeightAverage(torch::nn::Module& module,
                double decay,
                bool averages_buffers,
                OwnWeights own = {},
                std::function<void()> written = {});

  /// After an optimizer step that was made.
  void update();

  /// While it lives, the module has the averages. What is done to its buffers meanwhile (rank 0's for
  /// all) is done to the averages'.
  class InPlace {
   public:
    explicit InPlace(WeightAverage& average) : average_(average) { average_.exchange(); }
    ~InPlace() { average_.exchange(); }
    InPlace(const InPlace&) = delete;
    InPlace& operator=(const InPlace&) = delete;

   private:
    WeightAverage& average_;
  };

  /// By the module's names; they share memory with this.
  tensor::NamedTensorList state() const;
  int64_t updates() const { return updates_; }
  /// What state() and updates() returned. Throws a usage error for averages of another module.
  void load(const tensor::NamedTensorList& state, int64_t updates);
  /// The module has averages in place of its weights: takes them.
  void take(int64_t updates);
  /// Whether a tensor of 16 bits is averaged.
  bool has_short_weights() const;

  int64_t bytes() const;

 private:
  struct Item {
    std::string name;
    at::Tensor own;      // the module's
    at::Tensor average;  // float32 of 16 bits
    bool is_copied;      // at each update
    at::Tensor aside;    // the module's value, while the average of another dtype is in its place
  };

  void exchange();
  void refresh();  // each item's own

  OwnWeights own_;
  std::function<void()> written_;
  std::vector<Item> items_;
  double decay_;
  int64_t updates_ = 0;
};

}  // namespace muster::train
