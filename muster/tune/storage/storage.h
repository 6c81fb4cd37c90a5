// Where a study is kept: one SQLite file in Optuna's schema, with tables of ours beside it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/tune/core/call_piece.h"
#include "muster/tune/core/event.h"
#include "muster/tune/objective/objective.h"
#include "muster/tune/space/space.h"

namespace muster::tune {

// Note [Storage]
// Optuna 5 (schema version 12, alembic v3.2.0.a) opens, continues and plots the file; Optuna's
// dashboard shows it. What Optuna has no place for is in tables named muster_…, which it leaves
// alone: the event log (Note [Event log]) and the study's own description. WAL, so that readers
// never block the writer.
//
// A batch of events is one transaction. When transact() returns, the batch survives the death of
// this process; with `durable` also a power cut. So a report is answered only after that.
//
// Several processes write to one study (a tuner and those who ask): whoever does holds SQLite's
// write lock, first takes in what others have appended since, decides, and appends, all in one
// transaction. So there is one log, and no event rests on a state that was out of date.

/// What a storage knows of a study without reading its trials.
struct StudySummary {
  std::string name;
  std::string metric;
  Mode mode = Mode::kMax;
  Goals goals = {};  ///< of one that Optuna made: several objectives, but not its constraints
  int64_t trials = 0;
  Json description;  ///< space, searcher, scheduler, seed …: as StudyCore::description() says
                     ///< them; null for a study that Optuna made
};

/// A trial that Optuna added to a study (`study.optimize`, `optuna-dashboard`): the log knows
/// nothing of it.
struct ForeignTrial {
  int64_t number = 0;  ///< in Optuna's count; a trial of ours may have the same in ours
  TrialState state = TrialState::kComplete;
  std::map<std::string, Value> params;
  std::set<std::string> log_params = {};  ///< those that are drawn by their logarithms
  double value = 0;                       ///< NaN: none
  std::vector<double> values = {};       ///< by objective, if the study has several and it has them
  std::vector<double> constraints = {};  ///< of a trial that has some; above 0: violated
  std::vector<std::pair<int64_t, double>> intermediate;  ///< step, value; steps rise
  double started_s = 0, ended_s = 0;                     ///< seconds since 1970; 0: not yet
  std::optional<int64_t> again;  ///< ours that it is once more: `muster study restart` put it in
  std::string in_vain = {};      ///< of one that waits: why no tuner can run it; empty: one can
};

/// A trial that somebody has put into the study to be run: Optuna's enqueue_trial, or `muster study
/// restart`.
struct WaitingTrial {
  int64_t number = 0;                   ///< in Optuna's count
  std::map<std::string, Value> params;  ///< those that are fixed
  std::optional<int64_t> again;         ///< the failed trial, in our count, that it is once more
  Point point = {};                     ///< of that one; empty where an older version restarted it
  bool added = false;                   ///< by `muster study add`
  std::string strange;                  ///< why it cannot be read, not being as Optuna writes one
};

/// The environment error of a file that another program locks beyond the patience.
class StorageLocked : public Error {
 public:
  using Error::Error;
  /// The same of a caller who has tried again for so long.
  StorageLocked after(double waited_s) const;
};

/// How long a call waits for another program's lock.
inline constexpr double kLockPatienceS = 10;

class Storage {
 public:
  virtual ~Storage() = default;

  /// From what other processes have appended since the last call of this storage, what is to be
  /// appended now: a view that holds until transact() returns.
  using Make = std::function<std::span<const Event>(std::vector<Event> theirs)>;

  /// One transaction: takes the write lock, calls `make`, appends. Throws an environment error
  /// (full disk, file gone; StorageLocked): nothing is stored then, and `make` may have been called
  /// or not; an exception of `make` passes through. Throws a usage error, as news() and events(),
  /// for a study that was deleted meanwhile.
  virtual void transact(const Make& make) = 0;

  /// The same for events that are there already.
  void append(std::span<const Event> events);

  /// What others have appended since the last call of this storage, without the write lock.
  virtual std::vector<Event> news() = 0;

  /// All events so far, in order, one at a time: a long log need not be in memory at once. `visit`
  /// calls nothing of this storage.
  /// Those behind event `after`.
  virtual void for_each_event(const std::function<void(Event&& event)>& visit,
                              int64_t after = 0) = 0;
  std::vector<Event> events();

  /// StudyCore::outline() as it is stored, of an event that is known here.
  struct Outline {
    int64_t event = 0;  ///< it is of the moment after this one; 0: there is none
    std::string text;
  };
  virtual Outline outline() = 0;
  /// In place of the one before. Within transact(), of the newest event that it is to append.
  virtual void keep_outline(const Event& newest, const std::string& text) = 0;

  /// The pieces of calls up to an event, in order (Note [Calls beside the log]).
  virtual std::vector<CallPiece> call_pieces(int64_t up_to) = 0;
  /// The newest one without its calls, if its event is the log's; else one of event 0.
  virtual CallPiece last_call_piece() = 0;
  /// Behind those before; in place of all if its `after` is 0. As keep_outline().
  virtual void keep_call_piece(const Event& newest, const CallPiece& piece) = 0;

  /// The trials that wait to be run, as of the last call of this storage; oldest first.
  virtual std::vector<WaitingTrial> waiting_trials() = 0;

  /// The trials not from the log that are over, by number; as of the last call of this storage,
  /// and each once.
  virtual std::vector<ForeignTrial> finished_trials() = 0;
};

struct StorageOptions {
  bool durable = false;
  double lock_patience_s = kLockPatienceS;  ///< of transact()
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

/// Throws as find_study() if there is no such file or study; makes neither.
void require_study(const std::filesystem::path& file, std::string_view name);

/// The events of a study, without opening it for writing; none for a study that Optuna made. Needs
/// no right to write: not to the file, nor its folder.
std::vector<Event> read_events(const std::filesystem::path& file, std::string_view study);

/// The same in pieces, in order, for a log that need not be in memory at once. `on_events` may open
/// the file to read.
void read_events(const std::filesystem::path& file,
                 std::string_view study,
                 const std::function<void(std::span<const Event> events)>& on_events);

/// Those behind event `seen`, or all for a `seen` with id 0, for who looks again and again. Throws a
/// usage error, too, if the log does not have `seen` any more: the study was deleted meanwhile.
std::vector<Event> read_events_behind(const std::filesystem::path& file,
                                      std::string_view study,
                                      const Event& seen);

/// The study's trials that are not from the log, by number, whatever their state. Opens nothing for
/// writing.
std::vector<ForeignTrial> read_foreign_trials(const std::filesystem::path& file,
                                              std::string_view study);

/// What Optuna counts trials of ours as, by our numbers: another one's where Optuna added some. Opens
/// nothing for writing.
std::map<int64_t, int64_t> read_optuna_numbers(const std::filesystem::path& file,
                                               std::string_view study);

/// What became of a trial of ours; nothing if it is not over, or not there. Opens nothing for writing.
/// Throws as require_study().
std::optional<TrialState> read_end_of_trial(const std::filesystem::path& file,
                                            std::string_view study,
                                            int64_t number);

/// Removes a study with all its trials from the file. Throws a usage error if it is not there or a
/// tuner runs it. `trials`, the folder with the files of its trials, is moved aside before another
/// tuner can begin one of the same name there; returned is the folder to remove then, empty if there
/// is none. Throws an environment error if that fails: the study itself is gone then.
std::filesystem::path delete_study(const std::filesystem::path& file,
                                   std::string_view study,
                                   const std::filesystem::path& trials = {},
                                   double lock_patience_s = kLockPatienceS);

/// The folders beside `trials` that such deletions have moved aside and, killed, not removed (or not
/// yet): nobody needs what is in them.
std::vector<std::filesystem::path> left_by_deletions(const std::filesystem::path& trials);

/// Puts failed trials of ours into the study once more, as Optuna's RetryFailedTrialCallback does:
/// each as a trial that waits with the same parameters, which a tuner runs (one that runs does so
/// now). `numbers`: those alone; empty: all that failed and were not put in before. Returns which.
/// Throws a usage error for one that has not failed.
std::vector<int64_t> restart_failed_trials(const std::filesystem::path& file,
                                           std::string_view study,
                                           std::span<const int64_t> numbers,
                                           double lock_patience_s = kLockPatienceS);

/// Puts a trial with these values into the study, as Optuna's enqueue_trial does; what is not named is
/// drawn. A tuner that runs takes it when it has room, another one later. Throws a usage error for
/// values that are no part of a point of the space (as Space::point_of), and a study that Optuna made.
void add_trial(const std::filesystem::path& file,
               std::string_view study,
               const std::map<std::string, Value>& values,
               double lock_patience_s = kLockPatienceS);

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
