// The study as a state machine: no clock, no thread, no file, no process.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/base/json_fwd.h"
#include "muster/tune/core/event.h"
#include "muster/tune/core/study_spec.h"
#include "muster/tune/schedule/scheduler.h"
#include "muster/tune/search/searcher.h"
#include "muster/tune/trial/trial.h"

namespace muster::tune {

// Note [Study core]
//
//     searcher, scheduler ── StudyCore ── events ──> storage
//                               │  ▲
//              next(), decisions│  │reports, ends
//                               ▼  │
//                        tuner + executor (processes, threads, sockets)
//
// Everything that is decided is decided here, as a function of the calls and their order; times
// come as arguments. Each call appends to take_events() what happened; the caller stores these
// events before it acts on the answer. So whatever dies, the log holds a state from which a new
// core goes on, and with one slot the study ends as if nothing had died.

/// A report of a trial as it is kept for tables and restarts.
struct TrialPoint {
  int64_t t = 0;
  double metric = 0;  ///< the study's metric; NaN: not a number or missing
};

/// What is known of a trial.
struct Trial {
  int64_t number = 0;
  Point point;
  Values values;
  TrialState state = TrialState::kPending;
  int32_t attempt = 0;
  int64_t last_t = 0;
  int64_t reports = 0;
  double last_metric = 0, best_metric = 0;  ///< NaN: none
  Metrics last_metrics;
  std::string checkpoint;  ///< newest, empty: none
  int64_t checkpoint_t = 0;
  double started_s = 0, ended_s = 0, run_s = 0;  ///< wall times; run_s over all ended attempts
  double attempt_s = 0;                          ///< when the newest attempt started
  double due_s = 0;                              ///< of a retry
  Failure failure = Failure::kNone;
  std::string reason;  ///< of the newest decision or failure
};

class StudyCore {
 public:
  /// Throws a usage error for a searcher or scheduler that is unknown or refuses the space.
  explicit StudyCore(const StudySpec& spec);
  ~StudyCore();
  StudyCore(StudyCore&&) noexcept;

  /// The description to store with the study, and to compare on resume.
  Json describe() const;

  struct Next {
    enum Kind { kStart, kWait, kFinished } kind = kWait;  ///< kStart: `trial` is to be started now
    int64_t trial = -1;
    double wait_until_s = 0;  ///< kWait with a retry pending: not before; 0: until something ends
  };
  /// What to do with a free slot. kStart has made an AttemptStarted event. With `asked` the trial
  /// is run by somebody who is not there all the time (`muster study ask`): it outlives its tuner.
  Next next(double now_s, bool asked = false);

  /// The answer to a report of a running attempt. A report of a restarted trial that repeats a `t`
  /// that is recorded is answered from the record and makes no event. Throws a usage error for a
  /// report that makes no sense (t not rising, the study's metric missing from the first report:
  /// nearest name as hint), which leaves the core as it was.
  Decision report(int64_t trial, const Report& report, double now_s);

  /// The attempt is gone.
  void ended(int64_t trial, Failure failure, const std::string& message, double now_s);

  /// No new trials from now on (Ctrl-C, time budget, `muster study stop`).
  void stop(const std::string& reason, double now_s);
  bool is_stopped() const;
  /// Ends one trial early, as the scheduler would (PRUNED): a running one when its attempt ends,
  /// which the caller sees to. Throws a usage error for a trial that is over or not there.
  void stop_trial(int64_t trial, const std::string& reason, double now_s);

  /// Tells the searcher of a trial that another program finished. Returns false, and makes no
  /// event, for one that it was told of before. Throws a usage error for a point of another space.
  bool learn(const OutsideTrial& trial, double now_s);

  /// A line for the log that changes nothing.
  void note(const std::string& text, double now_s);

  /// What happened since the last call.
  std::vector<Event> take_events();
  void discard_events();

  /// Applies a stored event. Throws an internal error that names it if this core does otherwise at
  /// this place. Call for all stored events, in order, before anything else.
  void replay(const Event& event);

  /// After the replay: attempts that the log leaves running are gone with their tuner. What their
  /// newest report was answered holds; the others go on with a further attempt, free of charge.
  /// Attempts that were asked for are left alone until they are `asked_lease_s` old.
  void recover(double now_s, double asked_lease_s = kAskedLeaseS);
  static constexpr double kAskedLeaseS = 24 * 3600;

  std::span<const Trial> trials() const;
  /// The same, out of a core that is not needed any more.
  std::vector<Trial> take_trials() &&;
  /// The best finished trial, or the best so far; null if no trial has a finite metric.
  const Trial* best() const;
  /// The metric that counts for the trial: of the last report or the best one (StudySpec::scope).
  double result(const Trial& trial) const;
  /// Trials of the study when it is done; -1: without end.
  int64_t planned_trials() const;
  const StudySpec& spec() const;
  std::string scheduler_status() const;

 private:
  friend class StudyReplay;
  struct Impl;  // study_state.h
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::tune
