// Ranks that have different numbers of batches.
#pragma once

namespace muster::parallel {

/// For DistributedDataParallel::join.
struct JoinOptions {
  /// Gradients of a step are divided by all ranks, also those that have ended: late steps count
  /// less. False: by the ranks that still take part, as in a smaller world. Without effect on what
  /// `weighted` gives.
  bool divide_by_initial_world_size = true;
  /// The first rank to end makes all ranks throw a usage error.
  bool throw_on_early_termination = false;
  /// Every synchronised forward is followed by one weigh(loss, samples): each step's gradient is
  /// the exact mean over the samples of the ranks that take part.
  bool weighted = false;
};

/// What is known of the step under way. Internal to GradientSync.
struct JoinRun {
  JoinOptions options;
  int present = 0;     ///< ranks with a batch in this step
  int authority = 0;   ///< the highest of them, whose buffers count
  bool syncs = false;  ///< gradients are averaged in this step
};

}  // namespace muster::parallel
