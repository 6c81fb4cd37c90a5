// How long one has waited, as a limit of time should count it.
#pragma once

#include <algorithm>
#include <chrono>

namespace muster::distributed {

/// Time that passed between looks: of a longer pause between two of them `most` counts, and no
/// more. Who looks more often than that sees wall time; a process that was stopped, a machine that
/// slept or lent its cores elsewhere does not find its limits over before it could see what the
/// others did meanwhile. One thread.
class WaitedTime {
 public:
  using Clock = std::chrono::steady_clock;

  explicit WaitedTime(Clock::duration most) : most_(most), looked_(Clock::now()) {}

  /// Since the beginning.
  Clock::duration look() {
    const auto now = Clock::now();
    waited_ += std::min(now - looked_, most_);
    looked_ = now;
    return waited_;
  }

 private:
  Clock::duration most_, waited_{};
  Clock::time_point looked_;
};

}  // namespace muster::distributed
