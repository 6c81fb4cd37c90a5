// Which epoch was the best so far, and whether it is time to give up.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/json.h"

namespace muster::train {

struct BestEpochOptions {
  bool falls = false;    ///< the watched value gets better by falling (a loss)
  int64_t patience = 0;  ///< give up after so many epochs in a row that were not better; 0: never
  double min_delta = 0;  ///< better means better by more than this (Keras' and Lightning's rule)
};

/// Fed once per epoch with a number that is the same on every rank. NaN is never better.
class BestEpoch {
 public:
  explicit BestEpoch(const BestEpochOptions& options) : options_(options) {}

  /// True if this epoch, which ended after `step` optimizer steps, is the best so far.
  bool after_epoch(double value, int64_t step);

  bool exhausted() const { return options_.patience > 0 && waited_ >= options_.patience; }
  /// In words: "stopped early: no epoch better than step 860's 0.9112 for 3 epochs".
  std::string why() const;

  int64_t step() const { return step_; }  ///< of the best epoch; -1 before the first
  double value() const { return value_; }

  Json state() const;
  /// Throws Json's exception for a state that is not one; checkpoints are checked before.
  void load_state(const Json& state);

 private:
  BestEpochOptions options_;
  int64_t step_ = -1;
  double value_ = 0;
  int64_t waited_ = 0;  // epochs since
};

}  // namespace muster::train
