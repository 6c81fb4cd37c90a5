// --ema-decay: an average of the weights that the steps make, which is what is validated and tested.
#pragma once

#include <cstdint>
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
// last bit. Each rank keeps its own: parameters are alike on all, and of buffers those of rank 0
// count, which an evaluation gives to all. Validation, the best epoch and the test are of the
// averages, as Lightning's WeightAveraging has it; training and --resume go on with the weights.

/// One rank's average of a module's weights. Used by the rank's own thread.
class WeightAverage {
 public:
  /// `module` outlives this. 0 < decay < 1.
  WeightAverage(torch::nn::Module& module, double decay, bool averages_buffers);

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

  std::vector<Item> items_;
  double decay_;
  int64_t updates_ = 0;
};

}  // namespace muster::train
