// Where the next trial looks. One file of searchers/ adds one; see docs/add-a-searcher.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/entry.h"
#include "muster/base/params.h"
#include "muster/tune/objective/objective.h"
#include "muster/tune/space/space.h"
#include "muster/tune/trial/trial.h"

namespace muster::tune {

// Note [Searchers]
// A searcher is a deterministic function of its seed and of what it was told, in the order in which
// it was told. It keeps no clock, no thread, no file.
//
// Asking and telling are apart. suggest() is a question: it changes nothing that a later answer hangs
// on, so it may be asked again, its answer may be thrown away, and it may run on another thread
// than the other calls (never at the same time as they). What it finds out may be kept as long as it
// follows from what was told (a model fitted to the trials so far). suggested() says that a trial
// has started with a point. A resumed study asks nothing that was answered once: it tells
// suggested(), reported(), paused() and told() again as the log has them, so that neither refits a
// model for an old answer, nor differs where another libm does. So:
//
//     a searcher that was asked and told equals one that was only told.
//
// What an answer rests on and does not follow from what was told (hyperparameters from which the
// next fit starts) goes into Suggestion::memo: the log keeps it, and suggested() brings it back.
//
// Numbers rise, and those that are left out are trials whose points were given (StudyCore::offer):
// of these it hears reported(), paused() and told() alone. told() brings each finished trial once,
// also those that Optuna added to the study's file. A searcher that learns sees points (Note [Points
// and values]) and scores, where larger is better whatever the study's mode.
// grid_search dimensions and points_to_evaluate are not its business: the study core fills them
// (variants.h), and asks the searcher for the rest of the point.

struct SearcherContext {
  const Space& space;  ///< outlives the searcher
  uint64_t seed = 0;
  int64_t num_samples = 1;  ///< trials of the study, -1: endless
  Mode mode = Mode::kMax;   ///< only for words: reasons show metrics in the user's sign
  std::string metric = {};  ///< likewise
  std::vector<Objective> objectives = {};  ///< if there are several: see FinishedTrial::scores
  int64_t slots = 0;  ///< trials at once that the study asks for; 0: as many as fit
  bool has_constraints = false;
};

/// What a searcher is told of a finished trial.
struct FinishedTrial {
  int64_t number = 0;  ///< below 0: not this study's own; see outside_number
  Point point;
  TrialState state = TrialState::kComplete;  ///< kComplete, kPruned or kFailed
  double score = 0;                  ///< of the study's scope (last or best report); NaN: none
  int64_t step = 0;                  ///< of the last report; 0: none
  Failure failure = Failure::kNone;  ///< with kFailed: why
  /// By objective, larger is better, of a study of several; NaN: none. Else empty. Only for entries
  /// that take goals, as violation is.
  std::vector<double> scores = {};
  double violation = 0;  ///< of the study's constraints, summed; above 0: infeasible

  /// It ran out of memory, or violates a constraint: no bad trial, but one that cannot be taken.
  bool is_infeasible() const {
    return violation > 0 || (state == TrialState::kFailed && failure == Failure::kOutOfMemory);
  }
};

/// The number that searchers know a trial by which Optuna added to the study (-1, -2, …), and back.
constexpr int64_t outside_number(int64_t number) { return -1 - number; }

/// "trial 7", or "Optuna's trial 7".
std::string trial_phrase(int64_t number);

class Searcher {
 public:
  virtual ~Searcher() = default;

  struct Suggestion {
    enum Kind { kPoint, kWait, kFinished } kind = kPoint;  ///< kWait: not before more is told
    Point point;
    std::string reason;  ///< for the log: "round 2 of the refinement around trial 7"; may be empty
    std::string memo;    ///< for suggested(), by way of the log; short; may be empty
  };

  /// The point of trial `number`. `partial` holds what is fixed already (grid dimensions, given
  /// points), NaN elsewhere. The answer keeps these, and has a number at every dimension
  /// (Space::with_conditions is applied later). kWait is for those who will be told more: something
  /// that they suggested has neither finished nor paused. kFinished ends the search.
  virtual Suggestion suggest(int64_t number, const Point& partial) = 0;

  /// Trial `number` starts with what suggest() had answered; `point` has NaN where a condition does
  /// not hold.
  virtual void suggested(int64_t /*number*/, const Point& /*point*/, const std::string& /*memo*/) {}

  /// A report of a trial with the study's metric, whatever it was answered; NaN and infinities come
  /// as they are. Each once, and t of a trial rises: step, or the count of reports.
  virtual void reported(int64_t /*number*/, int64_t /*t*/, double /*score*/) {}

  /// The trial has given its slot back after its last report. It may go on (reported() comes then)
  /// or end (told() comes), or stay so for long: who waits for trials does not wait for it.
  virtual void paused(int64_t /*number*/) {}

  /// The trial is over.
  virtual void told(const FinishedTrial&) {}

  /// suggest() takes microseconds whatever was told: it need not be called on another thread.
  virtual bool is_quick() const { return false; }

  /// False: what it suggests hangs on the number and on what is fixed alone, not on anything that it
  /// was told. Of others the calls are kept and made again (Note [Calls beside the log]).
  virtual bool has_history() const { return true; }

  /// What it has to say when a study begins or goes on, in a line: "auto picked gp: …". Empty:
  /// nothing.
  virtual std::string introduction() const { return ""; }
};

struct SearcherEntry {
  static constexpr std::string_view kKind = "searcher";
  std::string_view name;
  std::string_view help;
  std::span<const Param> params;
  std::unique_ptr<Searcher> (*make)(const SearcherContext& context, const ParamValues& params);
  /// It tries every combination once: Variants counts them and makes the points.
  bool enumerates = false;
  /// It takes studies of several objectives, and with constraints (Note [Several objectives]).
  bool takes_goals = false;
  /// It draws each parameter for itself, so that trials can share draws (StudySpec::constant_grid_search).
  bool shares_draws = false;
};

/// All searchers (generated; see Note [Generated tables]).
EntryTable<SearcherEntry> searchers();

/// By "random" or "random_then_grid:top=3". Throws a usage error for an unknown name or parameter.
/// Every searcher also takes max_concurrent and batch, which wrap it in limit_concurrency
/// (concurrency.h), unless it has parameters of these names.
std::unique_ptr<Searcher> make_searcher(const std::string& spec, const SearcherContext& context);

/// For searchers: `point` with the numbers of `partial` where that has some.
Point keep_fixed(Point point, const Point& partial);

/// For searchers: `partial` with what it leaves open drawn from trial `number`'s own stream.
Point draw_open(const Space& space, const Point& partial, uint64_t seed, int64_t number);

}  // namespace muster::tune
