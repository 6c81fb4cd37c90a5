// Where the time of a step goes: data, computation, communication. For one rank; the ranks' parts
// make one trace.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/json.h"
#include "muster/parallel/formats/flight_recorder.h"

namespace muster::parallel {

// Note [What the time of a step is]
// The training thread marks four phases: data wait, forward, backward, optimizer. The flight
// recorder knows when each collective was called, waited for, and done. For one step of one rank:
//   communication   the time in which at least one collective is under way (called, not done)
//   exposed         the part of it in which the training thread stands still for it:
//                     - a thread is in the wait of an operation, until it is done;
//                     - in backward, from the call of the last collective that is called there
//                     until
//                       all that were called there are done. DDP's Reducer waits there by futures,
//                       which no mark can show, and hands its last bucket over with the last
//                       gradient, so that nothing is left to compute by then.
//   compute         forward, backward and optimizer, less what is exposed within them
//   data            data wait, less what is exposed within it
//   other           the rest of the step
//   overlap         the share of communication during which backward computes:
//                   |communication ∩ (backward - exposed)| / |communication|
// A run is bound by the largest of data, exposed and compute, summed over steps and ranks.

enum class Phase : uint8_t { kDataWait, kForward, kBackward, kOptimizer };

/// Sums over steps, seconds.
struct TimelineSummary {
  int64_t ranks = 1, steps = 0;
  double total_s = 0, data_s = 0, compute_s = 0, exposed_s = 0, communication_s = 0, overlap_s = 0;
  int64_t bytes = 0;         ///< given to collectives
  int64_t lost_records = 0;  ///< operations that the flight recorder had forgotten: make it larger

  double overlap() const { return communication_s > 0 ? overlap_s / communication_s : 0; }
  /// "loader", "comm" or "compute".
  std::string_view bound() const;
  /// "compute-bound: …, 84 % overlap, …", one line.
  std::string to_text() const;
};

struct TimelineOptions {
  int rank = 0;
  int64_t steps = 0;  ///< recorded from the first begin_step on; 0: all
  /// The rank's operations; may be null (a group of one).
  std::shared_ptr<const FlightRecorder> recorder;
  /// Monotonic, nanoseconds; the recorder's clock. For tests.
  std::function<int64_t()> clock = &FlightRecorder::now_ns;
};

/// Used by the training thread. Nothing is recorded outside of steps.
class Timeline {
 public:
  explicit Timeline(TimelineOptions options);

  /// False once the wanted steps are recorded: then all else does nothing.
  bool is_recording() const { return options_.steps == 0 || recorded_ < options_.steps; }

  void begin_step(int64_t number);
  void end_step();
  void begin(Phase phase);
  void end();

  /// `timeline` may be null: then nothing happens.
  class Scope {
   public:
    Scope(Timeline* timeline, Phase phase) : timeline_(timeline) {
      if (timeline_ != nullptr) timeline_->begin(phase);
    }
    ~Scope() {
      if (timeline_ != nullptr) timeline_->end();
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Timeline* timeline_;
  };

  const TimelineSummary& summary() const { return summary_; }

  /// This rank's part as text, for chrome_trace() on one of the ranks.
  std::string part() const;

 private:
  struct Span {
    Phase phase;
    int64_t begin_ns, end_ns;
  };
  struct Step {
    int64_t number, begin_ns, end_ns;
  };
  void add_step_to_summary(const Step& step, std::span<const OpRecord> operations);

  TimelineOptions options_;
  int64_t wall_offset_ns_;  // wall clock minus monotonic clock, at the start
  int64_t recorded_ = 0;
  bool in_step_ = false, in_phase_ = false;
  uint64_t next_id_ = 0;  // of the first operation that is not taken over
  std::vector<Step> steps_;
  std::vector<Span> spans_;
  size_t first_span_ = 0;  // of the step under way
  std::vector<OpRecord> operations_;
  TimelineSummary summary_;
};

/// Sums of several ranks.
TimelineSummary sum_of(std::span<const TimelineSummary> summaries);

/// What a part says of its rank. Throws a usage error if it is none.
TimelineSummary summary_of_part(std::string_view part);

/// One trace of the ranks' parts in the Trace Event Format (JSON object form): a process per rank,
/// with rows for steps, phases and collectives; those that are under way together have rows of
/// their own. Times are microseconds since the earliest rank's start, by the hosts' wall clocks.
/// Opens in chrome://tracing and ui.perfetto.dev. Throws a usage error for a part that is none.
std::string chrome_trace(std::span<const std::string> parts);

}  // namespace muster::parallel
