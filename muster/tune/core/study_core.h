// The study as a state machine: no clock, no thread, no file, no process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/json_fwd.h"
#include "muster/tune/core/call_piece.h"
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
  int32_t copies = 0;      ///< so often it went on from another trial's checkpoint
  int64_t checkpoint_t = 0;
  double started_s = 0, ended_s = 0, run_s = 0;  ///< wall times; run_s over all ended attempts
  double attempt_s = 0;                          ///< when the newest attempt started
  double due_s = 0;                              ///< of a retry
  Failure failure = Failure::kNone;
  std::string reason;     ///< of the newest decision or failure
  bool held = false;      ///< it is paused by a user, who alone can have it go on
  bool asked = false;     ///< its newest attempt was for who asked: StudyCore::next
  GoalValues goals = {};  ///< if the study has several objectives, or constraints
};

/// What a core knows and its log does not: see StudyCore::unlogged.
struct Unlogged {
  struct Attempt {
    int64_t trial = 0;
    int32_t attempt = 1;
    int64_t t = 0, counted = 0, sequence = 0;
    std::string refused;
  };
  std::string stopped;
  std::vector<Attempt> attempts;
};

/// Whether a checkpoint that a trial has reported is still there.
using CheckpointIsThere = std::function<bool(const std::string& checkpoint)>;

/// A point that is to be tried besides what the searcher suggests, on top of num_samples.
struct GivenPoint {
  Point partial;         ///< NaN: to be drawn
  std::string reason;    ///< "enqueued by Optuna", "trial 7 once more"
  int64_t adopted = -1;  ///< Optuna's number of the trial that waits with it; -1: none
};

class StudyCore {
 public:
  /// Throws a usage error for a searcher or scheduler that is unknown or refuses the space. With
  /// `suggests` false its searcher hears nothing, which may be much of a replay, and next() must not
  /// be called; all else is the same.
  explicit StudyCore(const StudySpec& spec, bool suggests = true);
  ~StudyCore();
  StudyCore(StudyCore&&) noexcept;
  StudyCore& operator=(StudyCore&&) noexcept;

  /// The description to store with the study, and to compare on resume.
  Json description() const;

  struct Next {
    enum Kind {
      kStart,      ///< `trial` is to be started now
      kWait,       ///< until something ends, or `wait_until_s`
      kHandedOut,  ///< all that is not over is with those who asked for it
      kHeld,       ///< all that is not over was paused by a user, or waits for what was
      kThink,      ///< the searcher thinks: call `think`, then next() again
      kFinished,
    } kind = kWait;
    int64_t trial = -1;
    double wait_until_s = 0;  ///< when a retry is due or a lease ends, whoever runs; 0: never
    /// With kWait: all that is not over is with those who asked for it, and the searcher has more to
    /// suggest once something is told of it.
    bool for_asked = false;
    /// With kThink: to be called once, on any thread; empty: another thread is at it already.
    std::function<void()> think = {};
  };
  /// What to do with a free slot. kStart has made an AttemptStarted event. With `asked` the trial
  /// is run by somebody who is not there all the time (`muster study ask`): it outlives its tuner,
  /// which does not wait for it. When nothing was told of it for StudySpec::ask_lease_s, it is
  /// taken back here. With `elsewhere` a searcher that is not quick is not asked here: see Note
  /// [Slow searchers]. A trial whose checkpoint `is_there` denies goes on from the newest one before
  /// that is there, or begins anew, and its reason says so; without it none is looked for.
  Next next(double now_s,
            bool asked = false,
            bool elsewhere = false,
            const CheckpointIsThere& is_there = {});

  /// The trial runs, and is in the hands of somebody who asked for it.
  bool is_asked(int64_t trial) const;

  /// Points that next() takes before it asks the searcher, in place of those of the last call.
  /// Those that were taken already are passed over.
  void offer(std::vector<GivenPoint> points);

  /// A trial of Optuna's that waits and cannot be run: said once per study.
  bool waits_in_vain(int64_t optuna_number) const;
  void note_in_vain(int64_t optuna_number, const std::string& why, double now_s);

  /// The answer to a report of a running attempt. A report of a restarted trial that repeats a `t`
  /// that is recorded is answered from the record and makes no event. Throws a usage error for a
  /// report that makes no sense (t not rising, the study's metric missing from the first report:
  /// nearest name as hint), which leaves the core as it was.
  Decision report(int64_t trial, const Report& report, double now_s);
  /// The caller has refused a report of the trial: as if report() had thrown `why`.
  void refuse_report(int64_t trial, const std::string& why);

  /// The attempt is gone. kInterrupted: the caller ended it, so that it goes on when the study is
  /// resumed; so does what fails after stop(). What ends well then is complete.
  void ended(int64_t trial, Failure failure, const std::string& message, double now_s);

  /// No new trials from now on (Ctrl-C, time budget, `muster study stop`).
  void stop(const std::string& reason, double now_s);
  bool is_stopped() const { return !stop_reason().empty(); }
  const std::string& stop_reason() const;
  /// It was stopped because trials fail (StudySpec::fail_fast, give_up_after): those that have since
  /// the newest tuner began, whoever ran them. The log says so to every process; a further tuner
  /// or forgive() begins anew.
  bool has_given_up() const;
  void forgive(const std::string& text, double now_s);
  /// Ends one trial early, as the scheduler would (PRUNED): a running one when its attempt ends,
  /// which the caller sees to. Throws a usage error for a trial that is over or not there.
  void stop_trial(int64_t trial, const std::string& reason, double now_s);

  // Note [Trials that a user holds]
  // A user's pause is no scheduler's: what a trial reports next is answered "pause", and it stays
  // paused until the user lets it go on, or stops it, whoever runs the study meanwhile. The
  // scheduler is told nothing, so that for it the trial goes on running, slowly. A report is
  // waited for since it has what the trial has come to; without a checkpoint the trial begins
  // anew, and repeats what is known. While a trial is held the study does not end.

  /// Has the trial paused at its next report; at once if it waits for a retry. Throws a usage error
  /// for one that is over, not there, or paused.
  void pause_trial(int64_t trial, const std::string& reason, double now_s);
  /// Lets a held trial go on, as soon as there is room, or takes back an order to pause. Throws a
  /// usage error for any other.
  void continue_trial(int64_t trial, const std::string& reason, double now_s);

  /// Tells the searcher of a trial that another program finished. Returns false, and makes no
  /// event, for one that it was told of before. Throws a usage error for a point of another space.
  bool learn(const OutsideTrial& trial, double now_s);
  bool knows_outside(int64_t optuna_number) const;

  /// A line for the log that changes nothing. `session`: a tuner begins; its trials' folder goes along
  /// when it is another one than before (Note [Moved trial folders]).
  void note(const std::string& text, double now_s, bool session = false);
  /// The newest folder of trials that the log names is not this core's, or it names none.
  bool has_moved() const;
  /// A line for the log that says where the trials' folder is (Note [Moved trial folders]).
  void note_place(double now_s);

  /// What happened since the last call.
  std::vector<Event> take_events();

  /// Checkpoints that StudySpec::keep_checkpoints wants removed (Note [Kept checkpoints]), since the
  /// last call; of a core that was made from a log, all that there ever were; of one that took an
  /// outline, none. To be removed when the events are stored.
  std::vector<std::string> take_needless_checkpoints();
  void discard_events();

  /// Applies a stored event. Throws an internal error that names it if this core does otherwise at
  /// this place. Call for all stored events, in order, before anything else.
  void replay(const Event& event);

  // Note [Outlines]
  // To start a trial, or to take a report, little of a long log is needed: trials that are not over,
  // the best one, and some counts, unless searcher, scheduler or rules remember more. That is an
  // outline. A core that takes one, and is fed the events behind it, does and says what one does that
  // is fed all events; of trials that were over before it knows that they were, and no more. An
  // outline is of the moment after an event, and is stored in the same transaction as that. A searcher
  // or scheduler that remembers more hears its calls again: Note [Calls beside the log].

  /// A text of what this core is now, for take_outline(); nothing if it hangs on more. Not while events
  /// are to be taken, nor while an attempt repeats what is known. `chain`: of the newest piece of calls.
  std::optional<std::string> outline(const std::string& chain = "") const;
  bool has_outline() const;  ///< outline() gives one
  /// Makes this core, which is new, the one that gave the outline behind this event. False, and nothing
  /// has happened, if it is of another version, event, or of a study with other rules, or is no outline,
  /// or if this core needs_calls() and these are not the outline's.
  bool take_outline(std::string_view text, int64_t event, std::span<const CallPiece> pieces = {});
  /// Its searcher or scheduler goes by what it was told.
  bool needs_calls() const;

  /// What pieces of calls hang on besides the log; empty: the study has none, as neither searcher
  /// nor scheduler goes by what it was told, or as it has no outlines.
  std::string call_rules() const;
  /// From now on keeps the calls of events behind this one for calls_behind(). Before the first event,
  /// or behind the outline's.
  void keep_calls(int64_t behind = 0);
  /// The piece that follows `before`, of which its text is not looked at; the first one if that has no
  /// event or other rules. Nothing if not all calls of it were kept, or none happened.
  std::optional<CallPiece> calls_behind(const CallPiece& before) const;
  /// They are stored, up to this event.
  void forget_calls(int64_t event);
  /// They follow each other from the first, none is damaged, and they are of call_rules().
  bool is_whole(std::span<const CallPiece> pieces) const;
  int64_t last_event() const;  ///< the id of the newest one; 0: none
  /// What became of the trial is known: not of those that were over before an outline, but for the
  /// best one. trials() has them as kComplete, without anything else.
  bool knows(int64_t trial) const;

  /// Attempts that the log leaves running are gone with their tuner. What their newest report was
  /// answered holds; the others go on with a further attempt, free of charge. Attempts that were
  /// asked for are left alone.
  void recover(double now_s);
  bool has_lost_attempts() const;  ///< recover() would change something

  /// What a core that is made anew from the log would not know: that it was stopped, and how far
  /// attempts are that repeat what one before has reported. Of the moment: a caller whose events
  /// could not be stored gives the new core what it took before.
  Unlogged unlogged() const;
  void restore(const Unlogged& unlogged);

  std::span<const Trial> trials() const;
  /// The same, out of a core that is not needed any more.
  std::vector<Trial> take_trials() &&;
  /// The best finished trial, or the best so far; null if no trial has a metric (NaN is
  /// none, an infinite one counts as Optuna counts it) and satisfies the constraints, and in a study of several objectives.
  const Trial* best() const;
  /// With several objectives: numbers of the trials that are complete and on the front (Note [Several
  /// objectives]), rising. NaN is no result.
  std::span<const int64_t> front() const;
  /// The metric that counts for the trial: of the last report or the best one (StudySpec::scope).
  double result(const Trial& trial) const;
  /// Trials of the study when it is done; -1: without end.
  int64_t planned_trials() const;
  const StudySpec& spec() const;
  /// Tells it from any other study, also one of this name: when it began. Empty: it has not yet.
  std::string identity() const;
  std::optional<double> began_s() const;  ///< when that was; nothing: it has not yet
  /// How long the tuners before the newest one ran, each to its last event; see
  /// StudySpec::time_budget_s.
  double used_s() const;
  std::string scheduler_status() const;
  /// Searcher::introduction(): what the searcher has to say when the study begins or goes on.
  std::string searcher_introduction() const;

 private:
  friend class StudyReplay;
  friend class StudyOutline;
  struct Impl;  // study_state.h
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::tune
