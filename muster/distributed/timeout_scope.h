// How long the operations of a group may take, for a while.
#pragma once

#include <chrono>
#include <exception>
#include <utility>

#include "muster/distributed/process_group.h"

namespace muster::distributed {

/// ProcessGroup::set_timeout(), taken back at its end.
class TimeoutScope {
 public:
  TimeoutScope(ProcessGroup group, std::chrono::milliseconds timeout)
      : group_(std::move(group)), before_(group_.timeout()) {
    group_.set_timeout(timeout);
  }
  ~TimeoutScope() {
    try {
      group_.set_timeout(before_);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): a backend that has failed
    }
  }
  TimeoutScope(const TimeoutScope&) = delete;
  TimeoutScope& operator=(const TimeoutScope&) = delete;

 private:
  ProcessGroup group_;
  std::chrono::milliseconds before_;
};

}  // namespace muster::distributed
