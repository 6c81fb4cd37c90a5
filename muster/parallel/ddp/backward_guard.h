// What a wrapped module's outputs know of the forward that made them, when backward reaches them.
#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

namespace c10d {
class Reducer;
}

namespace muster::parallel {

/// Shared by a GradientSync and the outputs of its forwards, which may outlive it. Used by the
/// rank's thread, and by the one that runs its backward while the rank's thread waits for it.
struct BackwardGuard : std::enable_shared_from_this<BackwardGuard> {
  c10d::Reducer* reducer = nullptr;  ///< null once the GradientSync is gone
  /// A c10d::Logger: the Reducer reports to one without looking whether it is there, when unused
  /// parameters are searched for and change from step to step. Goes before the Reducer.
  std::shared_ptr<void> logger;
  bool sync = true;        ///< false under no_sync
  bool armed = false;      ///< a synchronised forward has run since the last backward
  bool delay_all = false;  ///< static graph, first step: buckets travel when all else is done
  bool running = false;    ///< a backward is under way that the guard has seen begin

  /// Puts hooks on the outputs of a forward. Backward then throws a usage error, before any
  /// gradient changes, if no_sync covers only one of the two.
  void arm(const std::vector<at::Tensor*>& outputs);

 private:
  void begin_backward(bool forward_was_synced);
};

}  // namespace muster::parallel
