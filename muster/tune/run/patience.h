// How a tuner waits for storage. Private to the room.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/tune/execute/executor.h"

namespace muster::tune {

// Note [Patience]
// A disk that is full or a file that is locked is waited for, so long by the clock; trials wait for
// their answers meanwhile. The wait is the executor's, so that signals, timeouts and ends of trials
// are not held up. What it brings is kept for when storage is back. A wish to end is obeyed at
// once, and when no trial runs any more there is nothing left to wait for.

class Patience {
 public:
  struct Callbacks {
    std::function<void(const std::string& line)> note;
    std::function<void(const std::string& why, bool kill)> stop;  ///< of all that runs
    std::function<std::set<int64_t>()> running;                   ///< trials
    std::function<std::chrono::steady_clock::time_point()> now = &std::chrono::steady_clock::now;
  };

  /// Thrown when the study was to end and storage did not come back until its trials had ended.
  struct Lost {
    std::string why;
  };

  Patience(Executor& executor, double limit_s, Callbacks callbacks)
      : executor_(executor), limit_s_(limit_s), callbacks_(std::move(callbacks)) {}

  /// Calls `act` until it throws no environment error any more. Throws that, or Lost.
  template <class Act>
  void run(Act act) {
    std::optional<std::chrono::steady_clock::time_point> since;
    while (true) {
      try {
        return act();
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kEnvironment) throw;
        const auto now = callbacks_.now();
        const bool is_new = !since;
        if (is_new) since = now;
        if (std::chrono::duration<double>(now - *since).count() >= limit_s_) give_up(error);
        tell(error.what(), is_new);
      }
      wait();
    }
  }

  /// Why the study is to end, if that was wished in a wait, ever; else empty.
  const std::string& wish() const { return why_; }

  /// What came meanwhile; wishes to end among it have been obeyed.
  bool has_events() const { return !events_.empty(); }
  std::vector<ExecutorEvent> take_events() {
    wishes_ = 0;
    return std::exchange(events_, {});
  }

 private:
  [[noreturn]] void give_up(const Error& error) const;
  void tell(const std::string& trouble, bool is_new);
  void wait();
  void obey(const ExecutorEvent& event);

  Executor& executor_;
  double limit_s_;
  Callbacks callbacks_;
  std::vector<ExecutorEvent> events_;
  std::string trouble_, why_;
  int wishes_ = 0;
};

}  // namespace muster::tune
