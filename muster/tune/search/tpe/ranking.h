// Finished trials from the best to the worst, as TPE splits them.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "muster/tune/objective/domination.h"

namespace muster::tune {

/// Each trial once, what was added last. Complete trials by score, or, of several objectives, front by
/// front and of the last one a hypervolume subset (best_by_fronts); then those that were stopped early, the ones that came furthest first,
/// of those the better ones; then infeasible ones, the least violation first. Equal ones by age.
/// Source: optuna 5.0.0, samplers/_tpe/sampler.py, _split_trials.
class TrialRanking {
 public:
  void add_complete(int64_t age, double score);
  /// Of several objectives, larger is better; no NaN. Either this or the one above.
  void add_complete(int64_t age, std::span<const double> scores);
  /// NaN: reported nothing usable, which is worse than any score; step 0 as well: no report at all.
  void add_pruned(int64_t age, int64_t step, double score);
  void add_infeasible(int64_t age, double violation);
  /// Takes a trial out, if it is there.
  void remove(int64_t age);

  size_t size() const { return ranks_.size(); }

  /// Ages of the best, sorted by age.
  std::vector<int64_t> best(size_t count) const;

 private:
  struct Rank {
    int kind;
    double first, second;  // smaller is better; no NaN
    int64_t age;
    auto operator<=>(const Rank&) const = default;
  };
  void add(const Rank& rank);

  std::vector<int64_t> best_complete(size_t count) const;

  std::set<Rank> ranks_;
  std::unordered_map<int64_t, Rank> rank_of_;  // by age
  std::map<int64_t, Losses> losses_;           // of several objectives, of complete ones, by age
};

/// How many of n finished trials are good: a share of them, rounded up, and no more than `most`.
size_t good_count(size_t n, double share, int64_t most);

}  // namespace muster::tune
