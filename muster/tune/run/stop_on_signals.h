// SIGINT and SIGTERM as calls.
#pragma once

#include <functional>
#include <memory>

namespace muster::tune {

/// While it lives, SIGINT and SIGTERM call `on_signal` on a thread of its own; a second one does
/// what they do otherwise. One at a time in a process.
class StopOnSignals {
 public:
  explicit StopOnSignals(std::function<void(int signal)> on_signal);
  ~StopOnSignals();
  StopOnSignals(const StopOnSignals&) = delete;
  StopOnSignals& operator=(const StopOnSignals&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::tune
