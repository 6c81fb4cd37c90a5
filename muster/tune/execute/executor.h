// How a trial is run. One file of executors/ adds one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/entry.h"
#include "muster/base/params.h"
#include "muster/tune/core/study_spec.h"
#include "muster/tune/space/space.h"
#include "muster/tune/trial/trial.h"

namespace muster::tune {

// Note [Executors]
// An executor starts attempts of trials, brings their reports and their ends, and ends them when
// told. It decides nothing. All calls come from the tuner's one thread; wait() is where time
// passes. Reports that come in together are handed over together, so that storage takes them in one
// transaction; their answers are given after it, by answer().

/// What an executor needs to start an attempt.
struct AttemptPlan {
  int64_t trial = 0;
  int32_t attempt = 1;
  Values values;
  Resources resources;
  std::vector<std::string> device_ids;      ///< CUDA_VISIBLE_DEVICES
  std::filesystem::path checkpoint_folder;  ///< of the trial
  int32_t copies = 0;                       ///< Trial::copies
  std::string resume_from;                  ///< a checkpoint, or empty
};

/// What comes out of wait(). A report that a client sends again is answered by the executor and
/// does not come twice.
struct ExecutorEvent {
  enum Kind {
    kReport,     ///< `report`; is answered by answer(token, …)
    kEnded,      ///< `failure`, `message`
    kInterrupt,  ///< a signal asks the tuner to end; `message` names it
    kStopStudy,  ///< `muster study stop` asks
    kOrder,      ///< a user orders `action` for `trial`; is answered as a report is
    kNote,       ///< `message`, for the user: a line that is no report
  } kind = kNote;
  int64_t trial = -1;
  int32_t attempt = 1;
  Report report;
  uint64_t token = 0;  ///< of the report or order, for answer() and reject()
  Action action = Action::kContinue;
  Failure failure = Failure::kNone;
  std::string message;
  bool waits = true;  ///< the trial waits for the answer to its report
};

class Executor {
 public:
  virtual ~Executor() = default;

  /// Throws an environment error if it cannot be started at all; a command that is not there comes
  /// as kEnded.
  virtual void start(const AttemptPlan& plan) = 0;

  /// Blocks until something happened or `timeout_s` passed (< 0: no limit). At most a few thousand
  /// events at once.
  virtual std::vector<ExecutorEvent> wait(double timeout_s) = 0;

  /// The answer to a report; stored before. With pause or stop the attempt is to end: SIGTERM
  /// stop_grace_s later (at once if the trial cannot hear answers), SIGKILL kill_grace_s after
  /// that.
  virtual void answer(uint64_t token, const Decision& decision) = 0;

  /// The report was refused (`why`): the trial hears it as an error, the attempt goes on.
  virtual void reject(uint64_t token, const std::string& why) = 0;

  /// Ends an attempt that made no report just now (a study that is stopped, a timeout): as after a
  /// stop. `kill`: at once, with SIGKILL.
  virtual void stop(int64_t trial, std::string_view reason, bool kill) = 0;

  /// A checkpoint that a trial reported is there, where the next attempt would look for it.
  virtual bool has_checkpoint(const std::string& /*path*/) const { return true; }

  /// Where a running trial is, for tables: "host:pid".
  virtual std::string location(int64_t trial) const = 0;
};

/// Behind the name of a trial's folder that was found where a new trial begins, before a number.
inline constexpr std::string_view kOldFolder = ".old-";

struct ExecutorContext {
  const StudySpec& spec;      ///< outlives the executor
  std::string study;          ///< its name, for environment and messages
  std::string identity = "";  ///< StudyCore::identity, to know its trials' folders by; empty: none
};

struct ExecutorEntry {
  static constexpr std::string_view kKind = "executor";
  std::string_view name;
  std::string_view help;
  std::span<const Param> params;
  std::unique_ptr<Executor> (*make)(const ExecutorContext& context, const ParamValues& params);
};

/// All executors (generated; see Note [Generated tables]).
EntryTable<ExecutorEntry> executors();

}  // namespace muster::tune
