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
#include "muster/tune/space.h"
#include "muster/tune/trial.h"

namespace muster::tune {

// Note [Searchers]
// A searcher is a deterministic function of its seed and of what it was told, in the order in which
// it was told: a study is resumed by telling it all again. It keeps no clock, no thread, no file.
// suggest() is asked for the point of trial `number`, numbers rising by one; told() brings each
// finished trial once. A searcher that learns sees points (Note [Points and values]) and scores,
// where larger is better whatever the study's mode.
// grid_search dimensions and points_to_evaluate are not its business: the study core fills them
// (variants.h), and asks the searcher for the rest of the point.

struct SearcherContext {
  const Space& space;  ///< outlives the searcher
  uint64_t seed = 0;
  int64_t num_samples = 1;  ///< trials of the study, -1: endless
};

/// What a searcher is told of a finished trial.
struct FinishedTrial {
  int64_t number = 0;
  Point point;
  TrialState state = TrialState::kComplete;  ///< kComplete, kPruned or kFailed
  double score = 0;  ///< of the study's scope (last or best report); NaN: none
  int64_t step = 0;  ///< of the last report; 0: none
};

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
};

/// All searchers (generated; see Note [Generated tables]).
EntryTable<SearcherEntry> searchers();

/// By "random" or "random_then_grid:top=3". Throws a usage error for an unknown name or parameter.
std::unique_ptr<Searcher> make_searcher(const std::string& spec, const SearcherContext& context);

}  // namespace muster::tune
