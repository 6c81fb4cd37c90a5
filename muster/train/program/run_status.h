// What `muster gpu` shows of a training while it runs.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "muster/base/rank_env.h"
#include "muster/diagnose/devices/published_state.h"
#include "muster/train/plan/callbacks.h"
#include "muster/train/plan/fit_plan.h"

namespace muster::train {

/// Says where this process is in its run and what its allocators hold, twice a second at most (Note
/// [Status files]). Ranks that are threads have one file: rank 0 writes it, with all their devices. Where
/// no file can be written nothing is said, and nothing fails.
class RunStatus {
 public:
  static constexpr std::chrono::milliseconds kPeriod{500};

  RunStatus(std::string program, const FitPlan& plan, const std::optional<RankEnv>& env);

  /// Says that the run begins, and adds itself to the hooks that every rank calls; what is there is
  /// called, too.
  void attach(FitCallbacks& callbacks);

  /// Why nothing is said though a folder was named (MUSTER_STATUS_DIR); empty: it is, or none was.
  std::string why_not() const;

 private:
  bool is_heard(const HookPlace& at) const;
  void say(const HookPlace& at, std::string doing);

  const bool has_thread_ranks_;
  std::vector<c10::Device>
      devices_;  // with an allocator of their own, each once: ranks may share one
  diagnose::StatePublisher publisher_;
  diagnose::PublishedState state_;
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace muster::train
