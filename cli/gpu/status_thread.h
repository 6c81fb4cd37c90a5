// Readings of the machine on a thread of their own, so that a driver that does not answer holds
// nobody up.
#pragma once

#include <functional>
#include <memory>

#include "muster/diagnose/devices/machine_status.h"

namespace muster::cli {

/// Reads at once, and then again `interval_s` after each reading's end. One thread may call.
class StatusThread {
 public:
  /// `read` is called in the thread, never twice at once.
  StatusThread(std::function<diagnose::MachineStatus()> read, double interval_s);
  /// Asks the thread to end, and leaves it behind if a reading has not come back.
  ~StatusThread();
  StatusThread(const StatusThread&) = delete;
  StatusThread& operator=(const StatusThread&) = delete;

  /// To be polled: readable when there is a newer reading than the last that newest() gave.
  int wake_fd() const;

  /// Null before the first.
  std::shared_ptr<const diagnose::MachineStatus> newest();

  /// For how long the reading that is under way has run, by the steady clock; 0: none is.
  double reading_for_s() const;

  /// Asks the thread to end and waits for that, at most so long. False: it is in a reading that does
  /// not come back. Then the process must leave by _exit, as a driver's call is still under way.
  bool end(double timeout_s);

 private:
  struct State;
  static void run(const std::shared_ptr<State>& state);
  std::shared_ptr<State> state_;
};

}  // namespace muster::cli
