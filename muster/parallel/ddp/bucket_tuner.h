// Finds the size of gradient buckets by trying.
#pragma once

#include <cstdint>
#include <vector>

#include "muster/distributed/process_group.h"

namespace muster::parallel {

// Note [Bucket size]
// Small buckets start to travel early; large ones cost fewer operations. Which is faster depends on
// model, network and number of ranks: PyTorch's 25 MiB is for NCCL, and Li et al. (2020) measured 5
// MiB as best for Gloo. With kAutoBucketBytes the first steps try caps of 1, 5, 25 and 100 MiB, as
// far as the model is larger, each for two steps to settle and five to time; the cap whose median
// step is fastest stays. A step counts as long as on the slowest rank. Gradients are the same
// within rounding for any cap, and bit for bit where the backend adds in the same order wherever an
// element lies (thread, shm, any with two ranks). A run that shall continue bit for bit on another
// backend must go on with the cap it had: DistributedDataParallel::state() holds it.

/// One search. Used by the rank's thread, the same calls on every rank.
class BucketTuner {
 public:
  explicit BucketTuner(int64_t gradient_bytes);

  int64_t cap() const { return caps_[current_]; }
  bool done() const { return done_; }

  /// At the start of each synchronised step, `seconds` by a steady clock. True when cap() or done()
  /// has changed. Collective when the last cap has been timed.
  bool start_step(double seconds, const distributed::ProcessGroup& group);

  static constexpr size_t kSettleSteps = 2;  ///< first step, then DDP's own sorting of buckets
  static constexpr size_t kTimedSteps = 5;

 private:
  std::vector<int64_t> caps_;
  std::vector<double> medians_;  // s, of the caps done so far
  size_t current_ = 0;
  size_t started_ = 0;  // steps with the current cap
  double last_start_ = 0;
  std::vector<double> times_;  // s
  bool done_ = false;
};

}  // namespace muster::parallel
