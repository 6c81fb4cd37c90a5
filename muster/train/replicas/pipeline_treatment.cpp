#include "muster/train/replicas/pipeline_treatment.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "muster/pipeline/schedule/schedule.h"
#include "muster/train/replicas/pipeline_cut.h"

namespace muster::train::detail {
namespace {

using parallel::BlockBytes;
using pipeline::BlockCosts;
using pipeline::Split;

/// How many micro-batches of a stage are at most between their forward and the end of their backward.
int64_t in_flight_of(int64_t stage, const pipeline::ActionLists& lists) {
  using pipeline::ActionKind;
  int64_t now = 0, most = 0;
  for (const auto& list : lists.ranks) {
    for (const pipeline::Action& action : list) {
      if (action.stage != stage) continue;
      if (action.kind == ActionKind::kForward) most = std::max(most, ++now);
      if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardWeight) --now;
    }
  }
  return most;
}

/// Each way to cut so many units, in order.
void for_each_cut(int64_t units, int64_t stages, const std::function<void(const Split&)>& look) {
  Split split;
  const std::function<void()> descend = [&] {
    const int64_t left = stages - std::ssize(split);  // stages that have no beginning
    if (left == 0) return look(split);
    for (int64_t first = split.back() + 1; first <= units - left; ++first) {
      split.push_back(first);
      descend();
      split.pop_back();
    }
  };
  split.push_back(0);
  descend();
}

std::vector<BlockCosts> treated_costs(const UnitCosts& units,
                                      const Split& first_block,
                                      const UnitTreatment& treatment) {
  std::vector<BlockCosts> costs = units.plain;
  for (size_t block = 0; block < costs.size(); ++block)
    if (treatment.checkpointed[block]) costs[block] = units.again[block];
  for (size_t stage = 0; stage < first_block.size(); ++stage) {
    if (!treatment.offloaded[stage]) continue;
    const bool is_last = stage + 1 == first_block.size();
    const auto end = is_last ? costs.size() : static_cast<size_t>(first_block[stage + 1]);
    const auto first = static_cast<size_t>(first_block[stage]);
    let_wait_on_host(costs, first, end - 1, units.bytes, units.offload_bytes_per_s);
  }
  return costs;
}

/// One cut with what is done in it.
struct Tried {
  double times_room = 1, step_s = 0;
  std::vector<int64_t> share_bytes;
};

/// So often a rank's budget shrinks; what is run again needs room itself, so once may not be enough.
constexpr int kShrinks = 8;

/// The share that holds most of a rank which takes `over` bytes too many may hold so much less.
void shrink(std::vector<BudgetShare>& shares,
            const UnitTreatment& treatment,
            int64_t rank,
            double over) {
  size_t most = shares.size();
  for (size_t i = 0; i < shares.size(); ++i) {
    if (shares[i].rank != rank) continue;
    if (most == shares.size() || treatment.held[i] > treatment.held[most]) most = i;
  }
  if (most == shares.size()) return;
  const int64_t held = std::min(shares[most].bytes, treatment.held[most]);
  shares[most].bytes = std::max<int64_t>(0, held - static_cast<int64_t>(std::ceil(over)));
}

/// What is cheapest within the budget, or within less of it where a rank has no room for that; nothing
/// if the budget is too small.
std::optional<Tried> try_cut(std::vector<BudgetShare> shares,
                             const Split& cut,
                             const std::string& schedule,
                             const pipeline::PipelineSizes& sizes,
                             const UnitCosts& units,
                             const std::vector<double>& room) {
  std::optional<Tried> best;
  for (int shrunk = 0; shrunk <= kShrinks; ++shrunk) {
    const auto treatment = treatment_of(shares, cut, units);
    if (!treatment) break;
    const pipeline::PipelinePlan plan =
        pipeline::plan_of(schedule, sizes, treated_costs(units, cut, *treatment), cut);
    const std::vector<double>& taken = plan.partition.rank_bytes;
    Tried tried{.times_room = std::max(1.0, share_of_room(taken, room)),
                .step_s = plan.partition.step_s};
    for (const BudgetShare& share : shares) tried.share_bytes.push_back(share.bytes);
    if (!best || tried.times_room < best->times_room) best = std::move(tried);
    if (!(best->times_room > 1)) break;
    for (size_t rank = 0; rank < room.size(); ++rank) {
      const double over = taken[rank] - room[rank];
      if (over > 0) shrink(shares, *treatment, static_cast<int64_t>(rank), over);
    }
  }
  return best;
}

}  // namespace

std::vector<BudgetShare> shares_of(const parallel::BlockRule& budget,
                                   const Split& first_block,
                                   const pipeline::ActionLists& lists,
                                   std::span<const BlockBytes> bytes) {
  std::vector<BudgetShare> shares;
  for (int64_t rank = 0; rank < lists.placement.ranks(); ++rank) {
    const std::vector<int64_t> mine = lists.placement.stages_of(rank);
    if (budget.stage_budgets.empty()) shares.push_back({rank, mine, budget.budget_bytes, {}});
    for (size_t s = 0; !budget.stage_budgets.empty() && s < mine.size(); ++s)
      shares.push_back({rank, {mine[s]}, budget.stage_budgets[static_cast<size_t>(mine[s])], {}});
  }
  for (BudgetShare& share : shares) {
    for (const int64_t number : share.numbers) {
      parallel::BudgetStage& stage = share.stages.emplace_back();
      stage.in_flight = std::max<int64_t>(1, in_flight_of(number, lists));
      for (size_t block = 0; block < bytes.size(); ++block)
        if (stage_of(block, first_block) == number) stage.blocks.push_back(bytes[block]);
    }
  }
  return shares;
}

void UnitTreatment::take(const BudgetShare& share,
                         const Split& first_block,
                         const parallel::StageTreatment& made) {
  for (size_t s = 0; s < share.numbers.size(); ++s) {
    const auto number = static_cast<size_t>(share.numbers[s]);
    offloaded[number] = made.offloaded[s];
    const auto first = static_cast<size_t>(first_block[number]);
    for (size_t i = 0; i < made.again[s].size(); ++i) checkpointed[first + i] = made.again[s][i];
  }
}

bool UnitTreatment::is_any() const {
  return std::ranges::count(checkpointed, true) + std::ranges::count(offloaded, true) > 0;
}

std::optional<UnitTreatment> treatment_of(std::span<const BudgetShare> shares,
                                          const Split& first_block,
                                          const UnitCosts& units) {
  UnitTreatment all(units.bytes.size(), first_block.size());
  for (const BudgetShare& share : shares) {
    const auto made =
        parallel::cheapest_treatment(share.stages, share.bytes, units.offload_bytes_per_s);
    if (!made) return std::nullopt;
    all.take(share, first_block, *made);
    all.held.push_back(parallel::peak_bytes(share.stages, *made));
  }
  return all;
}

void let_wait_on_host(std::vector<BlockCosts>& costs,
                      size_t first,
                      size_t last,
                      const std::vector<BlockBytes>& bytes,
                      double bytes_per_s) {
  double whole = 0;
  for (size_t block = first; block <= last; ++block) whole += costs[block].activation_bytes;
  for (size_t block = first; block <= last; ++block) {
    costs[block].activation_bytes = costs[block].kept_bytes = 0;
    costs[block].work_bytes += whole;  // the most of the blocks counts
  }
  costs[first].input_bytes = static_cast<double>(bytes[first].input);
  costs[last].output_bytes = static_cast<double>(bytes[last].output);
  const double way_s = whole / bytes_per_s;
  for (const auto time : {&BlockCosts::forward_s, &BlockCosts::backward_s, &BlockCosts::input_s})
    costs[first].*time += way_s;
}

double share_of_room(std::span<const double> rank_bytes, std::span<const double> room) {
  double share = 0;
  for (size_t rank = 0; rank < room.size(); ++rank)
    share = std::max(share, rank_bytes[rank] / std::max(1.0, room[rank]));
  return share;
}

int64_t count_of_cuts(int64_t units, int64_t stages, int64_t most) {
  int64_t count =
      1;  // of the places between units, `stages - 1` are cut, or all but so many are not
  const int64_t chosen = std::min(stages - 1, units - stages);
  for (int64_t i = 1; i <= chosen && count < most; ++i) count = count * (units - i) / i;
  return std::min(count, most);
}

CutWithin best_cut_within(const parallel::BlockRule& budget,
                          const std::string& schedule,
                          const pipeline::PipelineSizes& sizes,
                          const UnitCosts& units,
                          const std::vector<double>& room) {
  const pipeline::ActionLists lists = pipeline::make_schedule(schedule, sizes).lists;
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::pair<double, double> best{kNever, kNever};  // times the room, and seconds of a step
  CutWithin best_cut, least_cut;
  int64_t least = std::numeric_limits<int64_t>::max();
  for_each_cut(std::ssize(units.plain), sizes.stages, [&](const Split& cut) {
    const std::vector<BudgetShare> shares = shares_of(budget, cut, lists, units.bytes);
    const auto tried = try_cut(shares, cut, schedule, sizes, units, room);
    if (!tried && best_cut.first_block.empty()) {
      int64_t needed = 0;
      for (const BudgetShare& share : shares)
        needed = std::max(needed, parallel::least_budget(share.stages, units.offload_bytes_per_s));
      if (needed < least) least_cut.first_block = cut, least = needed;
    }
    if (!tried) return;
    const std::pair<double, double> found{tried->times_room, tried->step_s};
    if (found < best)
      best_cut = {.first_block = cut, .share_bytes = tried->share_bytes}, best = found;
  });
  return best_cut.first_block.empty() ? least_cut : best_cut;
}

}  // namespace muster::train::detail
