// The timeline of a run: what each step spends on data, computation and communication.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "muster/diagnose/trace/timeline.h"
#include "muster/distributed/process_group.h"
#include "muster/tensor/device/device_spans.h"
#include "muster/train/plan/callbacks.h"

namespace muster::train {

/// Throws a usage error for a number of steps out of range, or a file that is a folder; an
/// environment error if its folder cannot be made or written.
void check_trace(const TraceOptions& options, bool leaves_nothing = false);

/// Used by the training loop of each rank. Without a file it only tells the group's monitor which
/// step it is. Phases are the host's: on a device, the time in which work is queued. When a device did
/// it is on rows of its own, by the device's events: what computes, and what is copied beside it.
class StepTimeline {
 public:
  /// `note` gets one line on rank 0 when the file is written, or could not be. `device` computes.
  StepTimeline(TraceOptions options,
               distributed::ProcessGroup group,
               std::function<void(const std::string&)> note,
               c10::Device device = c10::kCPU);

  void begin_step(int64_t step);
  /// Ends the phase before it.
  void begin(diagnose::Phase phase);
  void end();
  /// A stretch that is known afterwards, by std::chrono::steady_clock.
  void add(diagnose::Phase phase, double begin_s, double end_s);
  /// The step's batch is on the device, and computing with it may begin.
  void batch_arrived();
  /// Where other streams' work is marked; null on the CPU, and without a file.
  tensor::DeviceSpans* device_spans() { return device_spans_ ? &*device_spans_ : nullptr; }
  /// Collective after the last wanted step: writes the file.
  void end_step();
  /// Collective: writes the file if it is not written yet. Throws if the ranks cannot talk, not if
  /// the file cannot be written.
  void write_once();

 private:
  void write();
  void end_on_device(std::optional<size_t>& span);

  TraceOptions options_;
  distributed::ProcessGroup group_;
  std::function<void(const std::string&)> note_;
  std::optional<diagnose::Timeline> timeline_;
  std::optional<tensor::DeviceSpans> device_spans_;
  std::optional<size_t> step_on_device_, phase_on_device_;
  int64_t begun_ = 0;  // steps
  int64_t step_ = 0;
  bool written_ = false;
};

}  // namespace muster::train
