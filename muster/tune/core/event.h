// The log of a study: every thing that happened, in order. The study is what the log says.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "muster/tune/space/space.h"
#include "muster/tune/trial/trial.h"

namespace muster::tune {

// Note [Event log]
// StudyCore turns calls into events; storage keeps them, and a core that is fed the stored events
// again (StudyCore::replay) is in the same state, with searcher and scheduler having been called in
// the same order. Decisions are stored too, so that replaying checks them: a decision that comes
// out differently is an internal error that names the event. Points are data: a searcher is told what
// it had suggested (Note [Searchers]) and a scheduler what it had a trial go on with. That they are
// of the space, that the grid's part of them is the grid's and that values follow from points is
// checked.

/// A trial got its number and its point.
struct TrialAdded {
  Point point;
  Values values;
  std::string reason;    ///< of the searcher; may be empty
  bool given = false;    ///< the point is not the searcher's: see StudyCore::offer
  int64_t adopted = -1;  ///< Optuna's number of the waiting trial that this one is; -1: of none
  std::string memo;      ///< the searcher's own: Searcher::Suggestion::memo
  int64_t known = -1;    ///< the newest event that it knew of, when not the one before; else -1
};

/// An attempt of the trial starts; attempt 1 is the first. `from_checkpoint` is empty for a start
/// from nothing.
struct AttemptStarted {
  int32_t attempt = 1;
  std::string from_checkpoint;
  std::string reason;  ///< "promoted to rung 4: 2 of 6", "retry after crash"; may be empty
  bool asked = false;  ///< for somebody who is not there all the time: see StudyCore::next
  int64_t donor = -1;  ///< of another trial is the checkpoint; -1: it is its own
  Point point;         ///< what the trial has from now on, with its values; empty: what it had
  Values values;
};

/// A report and its answer. `t` is the time attribute that was used.
struct Reported {
  int32_t attempt = 1;
  int64_t t = 0;
  Report report;
  Decision decision;
};

/// The attempt's process is gone. `failure` is kNone for an end by itself or after stop or pause.
struct AttemptEnded {
  int32_t attempt = 1;
  Failure failure = Failure::kNone;
  std::string message;  ///< "exit code 1", "killed by SIGKILL", with the last line of its output
  TrialState then = TrialState::kComplete;  ///< the trial's state from now on
  double retry_in_s = 0;                    ///< with then == kPending
  bool ordered = false;                     ///< a paused trial: the scheduler said so
  bool by_user = false;  ///< a user stopped it, or paused it (Trial::held): not the scheduler
};

/// A trial is to end early, as somebody said who is not the scheduler: one that runs when its
/// attempt ends.
struct StopOrdered {
  std::string reason;
};

/// A user wants the trial paused: it is when it has reported once more.
struct PauseOrdered {
  std::string reason;
};

/// A trial that a user had paused, or was about to, may go on.
struct ContinueOrdered {
  std::string reason;
};

/// The tuner's own: started (with its process id), stopped (with the reason). Of a trial, in logs
/// of older versions: as StopOrdered.
struct TunerNote {
  std::string text;
  bool session = false;     ///< a tuner begins; what the ones before had running ends behind it
  bool forgives = false;    ///< failures so far give the study up no more, as with a session
  int64_t in_vain = -1;     ///< Optuna's number of a waiting trial that cannot be run; -1: of none
  bool last = false;        ///< no trial is to come: Scheduler::no_more_trials was called
  std::string folder = {};  ///< of the trials, from here on: Note [Moved trial folders]; else empty
};

/// A trial that another program (Optuna) finished in this study, which the searcher was told of.
struct OutsideTrial {
  int64_t number = 0;  ///< in Optuna's count
  Point point;
  TrialState state = TrialState::kComplete;  ///< kComplete, kPruned or kFailed
  double metric = 0;                         ///< its value; NaN: none
  int64_t step = 0;                          ///< of its last report; 0: none
  std::vector<double> results = {};          ///< its values, if the study has several objectives
  double violation = 0;                      ///< of its constraints, if the study has some
};

/// An attempt that repeats what one before has reported has come to a checkpoint: the trial goes on
/// from there, and what was decided at its `t` holds.
struct CheckpointSaved {
  int32_t attempt = 1;
  int64_t t = 0;
  std::string checkpoint;
};

struct Event {
  int64_t id = 0;      ///< 1, 2, … without gaps
  double time_s = 0;   ///< seconds since 1970, UTC
  int64_t trial = -1;  ///< -1: of the study
  std::variant<TrialAdded,
               AttemptStarted,
               Reported,
               AttemptEnded,
               TunerNote,
               OutsideTrial,
               CheckpointSaved,
               StopOrdered,
               PauseOrdered,
               ContinueOrdered>
      what;
};

/// "trial_added", "attempt_started", "reported", "attempt_ended", "tuner", "outside_trial",
/// "checkpoint", "stop_ordered", "pause_ordered", "continue_ordered".
std::string_view kind_of(const Event& event);

/// The event's own fields, without id, time, trial and kind. Doubles that JSON has not (NaN,
/// infinities) are the texts "nan", "inf", "-inf".
std::string payload_text(const Event& event);

/// The inverse. Throws a usage error that names event `id` for anything else than payload_text's
/// output.
Event event_from(
    int64_t id, double time_s, int64_t trial, std::string_view kind, std::string_view payload);

}  // namespace muster::tune
