// Where a study is kept: one SQLite file in Optuna's schema, with tables of ours beside it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/json.h"
#include "muster/tune/core/event.h"
#include "muster/tune/space/space.h"

namespace muster::tune {

// Note [Storage]
// Optuna 5 (schema version 12, alembic v3.2.0.a) opens, continues and plots the file; Optuna's
// dashboard shows it. What Optuna has no place for is in tables named muster_…, which it leaves
// alone: the event log (Note [Event log]), the study's own description, its running tuner. WAL, so
// that readers never block the writer; one writer per study (see TunerLock).
//
// A batch of events is one transaction. When append() returns, the batch survives the death of this
// process; with `durable` also a power cut. So a report is answered only after its append().

/// What a storage knows of a study without reading its trials.
struct StudySummary {
  std::string name;
  std::string metric;
  Mode mode = Mode::kMax;
  int64_t trials = 0;
  Json description;  ///< space, searcher, scheduler, seed …: as StudyCore::describe(); null for a
                     ///< study that Optuna made
};

/// A trial that Optuna added to a study (`study.optimize`, `optuna-dashboard`): the log knows
/// nothing of it.
struct ForeignTrial {
  int64_t number = 0;  ///< in Optuna's count; a trial of ours may have the same in ours
  TrialState state = TrialState::kComplete;
  std::map<std::string, Value> params;
  double value = 0;                                      ///< NaN: none
  std::vector<std::pair<int64_t, double>> intermediate;  ///< step, value; steps rise
  double started_s = 0, ended_s = 0;                     ///< seconds since 1970; 0: not yet
};

class Storage {
 public:
  virtual ~Storage() = default;

  /// Stores the events in one transaction. Throws an environment error (full disk, file gone,
  /// locked by another program beyond 10 s): nothing of the batch is stored then, and it may be
  /// tried again.
  virtual void append(std::span<const Event> events) = 0;

  /// All events so far, in order.
  virtual std::vector<Event> events() = 0;

  /// The study's trials that are not from the log, by number, whatever their state.
  virtual std::vector<ForeignTrial> foreign_trials() = 0;
};

struct StorageOptions {
  bool durable = false;
  double lock_patience_s = 10;  ///< how long append() waits for another program's lock
  /// Appends that follow each other faster are those of a busy study; see Note [Busy studies].
  double busy_below_s = 0.0025;
};

/// Opens the study in the file, making both if they are not there (`description` is stored then).
/// Throws a usage error if the file is no database of Optuna's schema version or the stored
/// description differs from `description` (its differences are the text, see describe_differences
/// in description.h), an environment error if it cannot be written.
std::unique_ptr<Storage> open_storage(const std::filesystem::path& file,
                                      const Space& space,
                                      const Json& description,
                                      const StorageOptions& options = {});

/// The studies of a file, by name. Throws a usage error if the file is not there or is no study
/// database. Reads only; works beside a running tuner.
std::vector<StudySummary> studies_of(const std::filesystem::path& file);

/// The one of that name, or the only one if `name` is empty. Throws a usage error that lists the
/// names otherwise.
StudySummary find_study(const std::filesystem::path& file, std::string_view name);

/// The events of a study, without opening it for writing; none for a study that Optuna made.
std::vector<Event> read_events(const std::filesystem::path& file, std::string_view study);

/// Storage::foreign_trials without opening it for writing.
std::vector<ForeignTrial> read_foreign_trials(const std::filesystem::path& file,
                                              std::string_view study);

/// The process that runs the study, as TunerLock tells; nothing if none does. 0: one of another PID
/// namespace.
std::optional<int> running_tuner(const std::filesystem::path& file, std::string_view study);

/// Held by the one tuner that runs a study; freed by the kernel when the process dies. A lock of
/// the process (fcntl) on a file of its own beside the storage, STORAGE.<study>.lock, so that
/// neither children nor SQLite's locks get mixed up with it.
class TunerLock {
 public:
  /// Throws a usage error that names the other tuner's process if the study is being run already.
  TunerLock(const std::filesystem::path& file, std::string_view study);
  ~TunerLock();
  TunerLock(const TunerLock&) = delete;
  TunerLock& operator=(const TunerLock&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::tune
