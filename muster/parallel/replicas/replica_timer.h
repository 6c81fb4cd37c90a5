// How long a replica worked on its share of a step.
#pragma once

#include <functional>
#include <optional>

#include <c10/core/Device.h>
#include <c10/core/Event.h>

namespace muster::parallel {

/// Times what the current stream of a device does between start() and stop(), without stopping the
/// device; on the CPU, the wall time. Calls come one after the other.
class ReplicaTimer {
 public:
  /// `clock` gives seconds, in place of the device's own time; empty: none.
  ReplicaTimer(c10::Device device, std::function<double()> clock);

  void start();
  void stop();

  /// Seconds from the last start() to the stop() after it; nothing if either has not been. Waits
  /// for the device if it is not there yet.
  std::optional<double> seconds() const;

 private:
  bool uses_events() const { return !device_.is_cpu() && !clock_; }
  double now() const;

  c10::Device device_;
  std::function<double()> clock_;
  std::optional<c10::Event> first_, last_;
  double started_ = 0, stopped_ = 0;
  bool complete_ = false;
};

}  // namespace muster::parallel
