// Which rank of a step holds the others up.
#pragma once

#include <chrono>
#include <exception>
#include <optional>
#include <vector>

#include <c10/core/Device.h>

#include "muster/pipeline/action/action.h"

namespace muster::parallel {

/// Looks at a step's ranks, again and again. Time counts as it was seen to pass: of a longer pause
/// between two looks, in which this process may have been stopped, `most` counts and no more.
class StallWatch {
 public:
  using Clock = std::chrono::steady_clock;

  /// Where a rank is. No action: it has not begun, or has ended.
  struct Spot {
    bool has_begun = false;
    const pipeline::Action* action = nullptr;
    Clock::time_point since{};
  };

  StallWatch(std::vector<c10::Device> devices,
             std::chrono::milliseconds timeout,
             Clock::duration most);

  /// `ranks` as they are at `now`, which does not fall; the first look is the beginning. Null, or the
  /// environment error that ends the step: it names the action that lasts longest of those that last
  /// longer than the timeout, or a rank that has not come to its first. One that waits for another's
  /// message is no cause, unless all wait: then a message does not get through.
  std::exception_ptr look(const std::vector<Spot>& ranks, Clock::time_point now);

 private:
  struct Seen {
    Spot spot;
    Clock::duration lasts{};
    bool ended = false;
  };
  void count_time(const std::vector<Spot>& ranks, Clock::time_point now);

  const std::vector<c10::Device> devices_;
  const std::chrono::milliseconds timeout_;
  const Clock::duration most_;
  std::optional<Clock::time_point> looked_;
  std::vector<Seen> seen_;  // by rank
};

}  // namespace muster::parallel
