#include "muster/tune/search/tpe/ranking.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/tune/objective/hypervolume.h"

namespace muster::tune {
namespace {

enum RankKind { kRankComplete, kRankPruned, kRankInfeasible };

}  // namespace

void TrialRanking::add_complete(int64_t age, double score) { add({kRankComplete, -score, 0, age}); }

void TrialRanking::add_complete(int64_t age, std::span<const double> scores) {
  add({kRankComplete, 0, 0, age});
  Losses& losses = losses_[age];
  losses.clear();
  for (const double score : scores) losses.push_back(-score);
}

void TrialRanking::add_pruned(int64_t age, int64_t step, double score) {
  const bool has_score = !std::isnan(score);
  if (step == 0 && !has_score) {
    add({kRankPruned, 1, 0, age});
  } else {
    const double worst = std::numeric_limits<double>::infinity();
    add({kRankPruned, -static_cast<double>(step), has_score ? -score : worst, age});
  }
}

void TrialRanking::add_infeasible(int64_t age, double violation) {
  add({kRankInfeasible, violation, 0, age});
}

void TrialRanking::add(const Rank& rank) {
  remove(rank.age);
  ranks_.insert(rank);
  rank_of_.emplace(rank.age, rank);
}

void TrialRanking::remove(int64_t age) {
  const auto known = rank_of_.find(age);
  if (known == rank_of_.end()) return;
  ranks_.erase(known->second);
  rank_of_.erase(known);
  losses_.erase(age);
}

std::vector<int64_t> TrialRanking::best_complete(size_t count) const {
  std::vector<int64_t> ages;
  std::vector<Losses> losses;
  for (const auto& [age, one] : losses_) {
    ages.push_back(age);
    losses.push_back(one);
  }
  std::vector<int64_t> best;
  for (const size_t place : best_by_fronts(losses, count)) best.push_back(ages[place]);
  return best;
}

std::vector<int64_t> TrialRanking::best(size_t count) const {
  std::vector<int64_t> ages = best_complete(count);
  for (const Rank& rank : ranks_) {
    if (ages.size() == count) break;
    if (rank.kind == kRankComplete && !losses_.empty()) continue;  // chosen above
    ages.push_back(rank.age);
  }
  std::ranges::sort(ages);
  return ages;
}

size_t good_count(size_t n, double share, int64_t most) {
  return static_cast<size_t>(
      std::min(std::ceil(share * static_cast<double>(n)), static_cast<double>(most)));
}

}  // namespace muster::tune
