// Where the next trial looks. One file of searchers/ adds one; see docs/add-a-searcher.md.
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

// Note [Searchers]
// A searcher is a deterministic function of its seed and of what it was told, in the order in which
// it was told: a study is resumed by telling it all again. It keeps no clock, no thread, no file.
// suggest() is asked for the point of trial `number`; numbers rise, and those that are left out are
// trials whose points were given (StudyCore::offer). told() brings each finished trial once, also
// these and those that Optuna added to the study's file. A searcher that learns
// sees points (Note [Points and values]) and scores, where larger is better whatever the study's
// mode.
// grid_search dimensions and points_to_evaluate are not its business: the study core fills them
// (variants.h), and asks the searcher for the rest of the point. suggest() that answers kWait
// changes nothing, since the log of a study does not hold that it was asked.

struct SearcherContext {
  const Space& space;  ///< outlives the searcher
  uint64_t seed = 0;
  int64_t num_samples = 1;  ///< trials of the study, -1: endless
};

/// What a searcher is told of a finished trial.
struct FinishedTrial {
  int64_t number = 0;  ///< below 0: not this study's own; see outside_number
  Point point;
  TrialState state = TrialState::kComplete;  ///< kComplete, kPruned or kFailed
  double score = 0;  ///< of the study's scope (last or best report); NaN: none
  int64_t step = 0;  ///< of the last report; 0: none
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
  };

  /// `partial` holds what is fixed already (grid dimensions, given points), NaN elsewhere. The
  /// answer keeps these, and has a number at every dimension (Space::with_conditions is applied
  /// later).
  virtual Suggestion suggest(int64_t number, const Point& partial) = 0;

  virtual void told(const FinishedTrial&) {}
};

struct SearcherEntry {
  static constexpr std::string_view kKind = "searcher";
  std::string_view name;
  std::string_view help;
  std::span<const Param> params;
  std::unique_ptr<Searcher> (*make)(const SearcherContext& context, const ParamValues& params);
  /// It tries every combination once: Variants counts them and makes the points.
  bool enumerates = false;
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
