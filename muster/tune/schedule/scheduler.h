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
#include "muster/tune/trial/trial.h"

namespace muster::tune {

// Note [Schedulers]
// Like a searcher, a scheduler is a deterministic function of its seed and of the calls made to it.
// It sees scores (larger is better; NaN and infinities as reported) and times: `t` is the reported
// step, or the count of reports. One call per report; a report that a restarted trial makes again
// is answered from the record and never seen here twice. promote() that names nobody changes
// nothing, since the log of a study does not hold that it was called.

struct SchedulerContext {
  uint64_t seed = 0;
  Mode mode = Mode::kMax;  ///< only for words: reasons show metrics in the user's sign
  std::string metric;      ///< likewise
};

class Scheduler {
 public:
  virtual ~Scheduler() = default;

  /// A new trial starts (a bracket may be drawn).
  virtual void on_start(int64_t /*number*/) {}

  /// Throws a usage error if `t` is not above the trial's t before.
  virtual Decision on_report(int64_t number, int64_t t, double score) = 0;

  /// The trial ended, with its last report; kComplete, kPruned or kFailed.
  virtual void on_end(int64_t /*number*/, TrialState /*state*/) {}

  /// The trial that was told to pause has given its slot back: promote() may name it from now on.
  virtual void on_pause(int64_t /*number*/) {}

  /// A paused trial to go on now, before any new one is started; asked when a slot is free.
  struct Promotion {
    int64_t number;
    std::string reason;
  };
  virtual std::optional<Promotion> promote() { return std::nullopt; }

  /// True if trials that this scheduler pauses may stay paused for ever: the study then ends when
  /// no new trial is due, nothing runs and promote() has nothing.
  virtual bool pauses() const { return false; }

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
};

/// All schedulers (generated; see Note [Generated tables]).
EntryTable<SchedulerEntry> schedulers();

/// By "fifo" or "asha:max_t=10,grace_period=1". Throws a usage error for an unknown name or
/// parameter.
std::unique_ptr<Scheduler> make_scheduler(const std::string& spec, const SchedulerContext& context);

/// For schedulers: throws a usage error that names the trial unless `t` is above `last_t`, its time
/// at the report before.
void require_rising(int64_t number, int64_t last_t, int64_t t);

}  // namespace muster::tune
