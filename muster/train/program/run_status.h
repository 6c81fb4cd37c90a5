// What `muster gpu` shows of a training while it runs.
#pragma once

#include <chrono>
#include <optional>
#include <string>

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

  /// `plan` outlives this.
  RunStatus(std::string program, const FitPlan& plan, const std::optional<RankEnv>& env);

  /// Says that the run begins, and adds itself to the hooks that every rank calls; what is there is
  /// called, too.
  void attach(FitCallbacks& callbacks);

  /// Why nothing is said though a folder was named (MUSTER_STATUS_DIR); empty: it is, or none was.
  std::string why_not() const;

 private:
  void say(const HookPlace& at, const std::string& doing, bool now);

  const FitPlan& plan_;
  diagnose::StatePublisher publisher_;
  diagnose::PublishedState state_;
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace muster::train
