// Where the time of a step goes: data, computation, communication. For one rank; the ranks' parts
// make one trace.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "muster/diagnose/record/flight_recorder.h"

namespace muster::diagnose {

// Note [What the time of a step is]
// The training thread marks four phases: data wait, forward, backward, optimizer. The flight
// recorder knows when each collective was called, waited for, and done. For one step of one rank:
//   communication   the time in which at least one collective is under way (called, not done)
//   exposed         the part of it in which the training thread stands still for it:
//                     - a thread is in the wait of an operation, until it is done;
//                     - in backward, from the call of the last collective that is called there
//                       until all that were called there are done. DDP's Reducer waits there by
//                       futures, which no mark can show, and hands its last bucket over with the
//                       last gradient, so that nothing is left to compute by then.
//                     - in a pipeline, it waits for a stage of another rank (the bubble)
//   compute         forward, backward and optimizer, less what is exposed within them
//   data            data wait, less what is exposed within it
//   other           the rest of the step
//   overlap         the share of communication during which backward computes:
//                   |communication ∩ (backward - exposed)| / |communication|
// A run is bound by the largest of data, exposed and compute, summed over steps and ranks.
// On a device the host does not learn when an operation ends: then communication, what is exposed
// of it, and overlap are unknown, and said to be.

enum class Phase : uint8_t { kDataWait, kForward, kBackward, kOptimizer, kStageWait };

/// "data wait", "forward", "backward", "optimizer" or "stage wait".
std::string_view name_of(Phase phase);

/// Sums over steps, seconds.
struct TimelineSummary {
  int64_t ranks = 1, steps = 0;
  double total_s = 0, data_s = 0, compute_s = 0, exposed_s = 0, communication_s = 0, overlap_s = 0;
  int64_t bytes = 0;         ///< given to collectives
  int64_t lost_records = 0;  ///< operations that the flight recorder had forgotten: make it larger
  bool knows_communication = true;  ///< false: exposed_s, communication_s and overlap_s are 0

  double overlap() const { return communication_s > 0 ? overlap_s / communication_s : 0; }
  /// "loader", "comm" or "compute".
  std::string_view bound() const;
  /// "compute-bound: …, 84 % overlap, …", one line.
  std::string to_text() const;
};

struct TimelineOptions {
  int rank = 0;
  int64_t steps = 0;  ///< recorded from the first begin_step on; 0: all, up to kMaxRecords
  /// So many steps before those are recorded as well, and forgotten when the next one begins: a
  /// run that is shorter has these.
  int64_t warm_up = 0;
  /// False where operations run on a device.
  bool knows_ends = true;
  /// The rank's operations; may be null (a group of one).
  std::shared_ptr<const FlightRecorder> recorder;
  /// Monotonic, nanoseconds; the recorder's clock. For tests.
  std::function<int64_t()> clock = &FlightRecorder::now_ns;
};

/// Used by the training thread. Nothing is recorded outside of steps.
class Timeline {
 public:
  /// Phases and operations, of 24 to 48 bytes each. A timeline that has so many takes no more
  /// steps.
  static constexpr size_t kMaxRecords = 1'000'000;

  explicit Timeline(TimelineOptions options);

  /// False once the wanted steps are over: then all else does nothing. The same on all ranks.
  bool is_recording() const {
    return in_step_ || options_.steps == 0 || begun_ < options_.warm_up + options_.steps;
  }

  void begin_step(int64_t number);
  void end_step();
  void begin(Phase phase);
  void end();
  /// What is known afterwards, on the timeline's clock; begin_ns rises from call to call.
  void add(Phase phase, int64_t begin_ns, int64_t end_ns);

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

  /// What a device did, by its own clock: a stretch on a row of the trace. Those on one row lie beside
  /// or within each other.
  struct DeviceSpan {
    std::string row, name;
    int64_t begin_ns = 0, end_ns = 0;  ///< on the timeline's clock
  };
  /// In the order of begin_ns on each row. What began before the first step that is kept is left out.
  void add_device_spans(std::vector<DeviceSpan> spans);

  const TimelineSummary& summary() const { return summary_; }

  /// This rank's part as text, for chrome_trace() on one of the ranks.
  std::string part() const;
  /// The same without its rows: for summary_of_part() and start_of_part().
  std::string head() const;

 private:
  struct Span {
    Phase phase;
    int64_t begin_ns, end_ns;
  };
  struct Step {
    int64_t number, begin_ns, end_ns;
  };
  struct Operation {
    OpKind kind;
    uint32_t call;  // in calls_
    uint64_t sequence;
    int64_t bytes, posted_ns, completed_ns;
  };
  bool keeps_next_step() const;
  void forget();
  void add_step_to_summary(const Step& step, std::span<const OpRecord> operations);
  void add_operation(const OpRecord& record);

  TimelineOptions options_;
  int64_t wall_offset_ns_;  // wall clock minus monotonic clock, at the start
  int64_t begun_ = 0;       // steps, kept or not
  bool in_step_ = false, keeps_ = false, in_phase_ = false;
  uint64_t next_id_ = 0;  // of the first operation that is not taken over
  std::vector<Step> steps_;
  std::vector<Span> spans_;
  size_t first_span_ = 0;  // of the step under way
  std::vector<Operation> operations_;
  std::vector<DeviceSpan> device_spans_;
  std::vector<std::string> calls_;  // what the operations were called with, each once
  std::unordered_map<std::string, uint32_t> call_numbers_;
  TimelineSummary summary_;
};

/// Sums of several ranks.
TimelineSummary sum_of(std::span<const TimelineSummary> summaries);

/// What a part says of its rank. Throws a usage error if it is none.
TimelineSummary summary_of_part(std::string_view part);

/// When a part's first step begins, by its host's wall clock, in nanoseconds; the largest number if
/// it has none. Throws a usage error if it is none.
int64_t start_of_part(std::string_view part);

/// One trace of the ranks' parts in the Trace Event Format (JSON object form): a process per rank,
/// with rows for steps, phases and collectives; those that are under way together have rows of
/// their own, and so have the streams of a device. Times are microseconds since the earliest rank's start, by the hosts' wall clocks.
/// Opens in chrome://tracing and ui.perfetto.dev. Holds one part at a time.
class ChromeTrace {
 public:
  /// `start_ns`: the least start_of_part(). `write` gets the file's text, piece by piece.
  ChromeTrace(int64_t start_ns, std::function<void(std::string_view)> write);
  /// Throws a usage error for a part that is none; the file is then useless.
  void add(std::string_view part);
  void close();

 private:
  int64_t start_ns_;
  std::function<void(std::string_view)> write_;
  bool has_events_ = false;
};

/// The same at once.
std::string chrome_trace(std::span<const std::string> parts);

}  // namespace muster::diagnose
