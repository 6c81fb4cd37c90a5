// Which trials go on. One file of schedulers/ adds one; see docs/add-a-scheduler.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "muster/base/entry.h"
#include "muster/base/params.h"
#include "muster/tune/space/space.h"
#include "muster/tune/trial/trial.h"

namespace muster::tune {

// Note [Schedulers]
// Like a searcher, a scheduler is a deterministic function of its seed and of the calls made to it.
// It sees scores (larger is better; NaN and infinities as reported) and times: `t` is the reported
// step, or the count of reports. One call per report; a report that a restarted trial makes again
// is answered from the record and never seen here twice. promote() that names nobody changes
// nothing, since the log of a study does not hold that it was called.
//
// The calls of a trial: on_start; on_report for each report, after on_checkpoint if that brings one;
// on_pause when it was told to pause and has given its slot back; on_resume when an order of
// promote() has sent it on; on_end. on_end comes at any time (a crash, a stop by hand, the end of
// the study for one that is paused), and a trial that is retried goes on with reports: t rises.

struct SchedulerContext {
  uint64_t seed = 0;
  Mode mode = Mode::kMax;  ///< only for words: reasons show metrics in the user's sign
  std::string metric;      ///< likewise; of several objectives the one that it goes by
  Space space = {};        ///< what points are of
  /// Trials of the study, -1: endless. A resumed study may change it, so no decision hangs on it
  /// (no_more_trials() is in the log); it is there to plan and to refuse.
  int64_t planned_trials = -1;
};

class Scheduler {
 public:
  virtual ~Scheduler() = default;

  /// A new trial starts (a bracket may be drawn); NaN in `point` where a parameter does not apply.
  virtual void on_start(int64_t /*number*/, const Point& /*point*/) {}

  /// Throws a usage error if `t` is not above the trial's t before.
  virtual Decision on_report(int64_t number, int64_t t, double score) = 0;

  /// The trial's newest checkpoint, from which it would go on, is now one of the state at `t`: it may
  /// be a donor. 0: it has none any more (a retry from the start).
  virtual void on_checkpoint(int64_t /*number*/, int64_t /*t*/) {}

  /// The trial ended, with its last report; kComplete, kPruned or kFailed.
  virtual void on_end(int64_t /*number*/, TrialState /*state*/) {}

  /// The trial that was told to pause has given its slot back: promote() may name it from now on.
  virtual void on_pause(int64_t /*number*/) {}

  /// What becomes of a paused trial.
  struct Promotion {
    int64_t number;
    std::string reason;
    /// It goes on from this trial's newest checkpoint, which must have one (on_checkpoint), instead
    /// of its own; -1: its own. Its t goes on, too: reports at or below the t that it has come to
    /// are passed over.
    int64_t donor = -1;
    /// And with this point; empty: its own. A number at every dimension that is to apply, inside
    /// its domain.
    Point point = {};
    /// It does not go on but ends, as PRUNED, or with `complete` as COMPLETE.
    bool end = false;
    bool complete = false;
  };
  /// An order for a paused trial, before any new trial is started; asked when a slot is free, and
  /// again at once after an `end`, which fills none.
  virtual std::optional<Promotion> promote() { return std::nullopt; }

  /// The order that named the trial is carried out; `point` is what it has now.
  virtual void on_resume(int64_t /*number*/, const Point& /*point*/) {}

  /// As things are no new trial comes: all planned ones have started, the searcher has no more, or
  /// it waits for those that are paused while nothing runs. Brackets that are not full will not be.
  /// promote() is asked behind it; what it names nobody of while nothing runs is given up. Only for
  /// who pauses(). on_start() may come all the same (a resumed study has more samples), and then
  /// this again.
  virtual void no_more_trials() {}

  /// True if trials that this scheduler pauses may stay paused for ever: the study then ends when
  /// no new trial is due, nothing runs and promote() has nothing.
  virtual bool pauses() const { return false; }

  /// False: what it decides of a trial hangs on nothing but that trial's newest report, which on_start
  /// and one on_report bring back; it pauses none. See Note [Outlines] in study_core.h.
  virtual bool has_history() const { return true; }

  /// False: an order of promote() names no donor that is over, so that nobody needs to know of a trial
  /// that is. Only then is there an outline of its studies (Note [Outlines] in study_core.h).
  virtual bool donors_may_be_over() const { return has_history(); }

  /// For the head of the table: "asha: reduction 2, max_t 10: rung 1: n=9, cutoff 0.41; rung 2:
  /// n=5, cutoff 0.47".
  virtual std::string status() const = 0;
};

struct SchedulerEntry {
  static constexpr std::string_view kKind = "scheduler";
  std::string_view name;
  std::string_view help;
  std::span<const Param> params;
  std::unique_ptr<Scheduler> (*make)(const SchedulerContext& context, const ParamValues& params);
  /// It decides nothing by scores, so that a study may have several objectives. One that has a
  /// parameter kOf goes by the objective that this names.
  bool takes_several = false;

  bool has_of() const;
};

/// The parameter of schedulers that go by one objective of several: "asha:of=accuracy". Who has it
/// declares it, and needs not look at it: scores, mode and metric are of that one.
inline constexpr std::string_view kOf = "of";
inline constexpr std::string_view kOfHelp = "of several objectives, the metric that it goes by";

/// All schedulers (generated; see Note [Generated tables]).
EntryTable<SchedulerEntry> schedulers();

/// By "fifo" or "asha:max_t=10,grace_period=1". Throws a usage error for an unknown name or
/// parameter.
std::unique_ptr<Scheduler> make_scheduler(const std::string& spec, const SchedulerContext& context);

/// For schedulers: throws a usage error that names the trial unless `t` is above `last_t`, its time
/// at the report before.
void require_rising(int64_t number, int64_t last_t, int64_t t);

}  // namespace muster::tune
