// The cut of a pipeline within a budget of activations, against all cuts with all that units can do.
#include "muster/train/replicas/pipeline_treatment.h"

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "muster/base/text.h"
#include "muster/pipeline/schedule/schedule.h"
#include "muster/train/replicas/pipeline_cut.h"

namespace muster::train::detail {
namespace {

using parallel::BlockBytes;
using parallel::BlockRule;
using pipeline::BlockCosts;
using pipeline::PipelineSizes;
using pipeline::Split;

constexpr double kNever = std::numeric_limits<double>::infinity();

UnitCosts units_of(int64_t count, std::mt19937& random) {
  const auto some = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  UnitCosts units;
  int64_t input = some(10, 50);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t output = some(10, 50);
    const auto forward = static_cast<double>(some(1, 9));
    units.bytes.push_back({.input = input,
                           .inner = some(0, 200),
                           .output = output,
                           .saves_input = some(0, 1) == 1,
                           .saves_output = some(0, 1) == 1,
                           .cost = forward});
    units.plain.push_back({.forward_s = forward,
                           .backward_s = 2 * forward,
                           .input_s = forward,
                           .weight_s = forward,
                           .parameter_bytes = static_cast<double>(some(1, 100))});
    units.again.push_back(units.plain.back());
    units.again.back().backward_s += forward;
    units.again.back().input_s += forward;
    input = output;
  }
  return units;
}

std::vector<Split> all_cuts(int64_t units, int64_t stages) {
  std::vector<Split> cuts{{0}};
  for (int64_t stage = 1; stage < stages; ++stage) {
    std::vector<Split> longer;
    for (const Split& cut : cuts) {
      for (int64_t first = cut.back() + 1; first < units; ++first) {
        longer.push_back(cut);
        longer.back().push_back(first);
      }
    }
    cuts = std::move(longer);
  }
  return cuts;
}

double step_of(const UnitCosts& units,
               const std::string& schedule,
               const PipelineSizes& sizes,
               const Split& cut,
               const std::vector<bool>& again) {
  std::vector<BlockCosts> costs = units.plain;
  for (size_t i = 0; i < again.size(); ++i)
    if (again[i]) costs[i] = units.again[i];
  return pipeline::plan_of(schedule, sizes, costs, cut).partition.step_s;
}

/// The most that a rank holds, a stage on each.
int64_t most_bytes(const std::vector<BudgetShare>& shares,
                   const Split& cut,
                   const std::vector<bool>& again) {
  int64_t most = 0;
  for (const BudgetShare& share : shares) {
    const auto first = static_cast<size_t>(cut[static_cast<size_t>(share.numbers[0])]);
    parallel::StageTreatment made{.again = {{}}, .offloaded = {false}};
    for (size_t i = 0; i < share.stages[0].blocks.size(); ++i)
      made.again[0].push_back(again[first + i]);
    most = std::max(most, parallel::peak_bytes(share.stages, made));
  }
  return most;
}

/// Of everything: by its number's bits a unit runs again.
struct Best {
  double step_s = kNever;
  int64_t least_bytes = std::numeric_limits<int64_t>::max();
};

Best best_of_all(const BlockRule& budget,
                 const UnitCosts& units,
                 const std::string& schedule,
                 const PipelineSizes& sizes) {
  const auto lists = pipeline::make_schedule(schedule, sizes).lists;
  const size_t count = units.plain.size();
  Best best;
  for (const Split& cut : all_cuts(std::ssize(units.plain), sizes.stages)) {
    const auto shares = shares_of(budget, cut, lists, units.bytes);
    for (size_t bits = 0; bits < size_t{1} << count; ++bits) {
      std::vector<bool> again;
      for (size_t i = 0; i < count; ++i) again.push_back((bits >> i & 1) == 1);
      const int64_t bytes = most_bytes(shares, cut, again);
      best.least_bytes = std::min(best.least_bytes, bytes);
      if (bytes <= budget.budget_bytes)
        best.step_s = std::min(best.step_s, step_of(units, schedule, sizes, cut, again));
    }
  }
  return best;
}

TEST(PipelineTreatment, FindsTheCutThatIsBestWithinABudgetOrNeedsTheLeast) {
  std::mt19937 random(17);
  int better = 0, refused = 0;
  for (int round = 0; round < 60; ++round) {
    const std::string schedule = round % 2 == 0 ? "1f1b" : "gpipe";
    const int64_t count = 4 + round % 3, stages = 2 + round % 2;
    const PipelineSizes sizes{.stages = stages, .ranks = stages, .micro_batches = 3};
    const UnitCosts units = units_of(count, random);
    const auto lists = pipeline::make_schedule(schedule, sizes).lists;
    BlockRule budget{.kind = BlockRule::Kind::kBudget,
                     .budget_bytes = std::uniform_int_distribution<int64_t>(100, 1000)(random)};
    SCOPED_TRACE(concat(schedule, ", ", count, " units, ", stages, " stages, round ", round));
    const Best best = best_of_all(budget, units, schedule, sizes);
    const Split cut = best_cut_within(budget, schedule, sizes, units, {}).first_block;
    const auto shares = shares_of(budget, cut, lists, units.bytes);
    const auto treatment = treatment_of(shares, cut, units);
    if (best.step_s == kNever) {
      ++refused;
      EXPECT_FALSE(treatment);
      int64_t needed = 0;
      for (const BudgetShare& share : shares)
        needed = std::max(needed, parallel::least_budget(share.stages));
      EXPECT_EQ(needed, best.least_bytes);
      continue;
    }
    ASSERT_TRUE(treatment);
    const double step = step_of(units, schedule, sizes, cut, treatment->checkpointed);
    EXPECT_NEAR(step, best.step_s, 1e-9 * best.step_s);
    // The cut that is best without a budget, and what it has to do within.
    Split plain;
    double plain_s = kNever;
    for (const Split& one : all_cuts(count, stages)) {
      const std::vector<bool> none(static_cast<size_t>(count));
      const double one_s = step_of(units, schedule, sizes, one, none);
      if (one_s < plain_s) plain = one, plain_s = one_s;
    }
    const auto there = treatment_of(shares_of(budget, plain, lists, units.bytes), plain, units);
    better += !there || step_of(units, schedule, sizes, plain, there->checkpointed) > 1.001 * step;
  }
  EXPECT_GT(better, 0);
  EXPECT_GT(refused, 0);
}

TEST(PipelineTreatment, TakesACutForWhichThereIsRoom) {
  std::mt19937 random(3);
  UnitCosts units = units_of(6, random);
  const PipelineSizes sizes{.stages = 2, .ranks = 2, .micro_batches = 4};
  const BlockRule budget{.kind = BlockRule::Kind::kBudget, .budget_bytes = int64_t{1} << 40};
  for (auto* costs : {&units.plain, &units.again}) {
    for (BlockCosts& unit : *costs) unit.parameter_bytes = 100;
  }
  const std::vector<double> room{250, 450};
  EXPECT_EQ(best_cut_within(budget, "1f1b", sizes, units, room).first_block, (Split{0, 2}));
}

TEST(PipelineTreatment, RunsAgainWhatARankHasNoRoomForThoughTheBudgetAllowsIt) {
  std::mt19937 random(5);
  const PipelineSizes sizes{.stages = 2, .ranks = 2, .micro_batches = 3};
  const auto lists = pipeline::make_schedule("1f1b", sizes).lists;
  const BlockRule budget{.kind = BlockRule::Kind::kBudget, .budget_bytes = int64_t{1} << 40};
  int with_room = 0, found_with_room = 0, only_treated = 0;
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(concat("round ", round));
    UnitCosts units = units_of(6, random);
    for (size_t i = 0; i < units.plain.size(); ++i) {
      BlockBytes& bytes = units.bytes[i];
      bytes.saves_input = true, bytes.saves_output = false;
      units.plain[i].activation_bytes = static_cast<double>(bytes.input + bytes.inner);
      units.again[i].activation_bytes = static_cast<double>(bytes.input);
      units.again[i].work_bytes = static_cast<double>(bytes.inner);
    }
    const std::vector<double> room{
        static_cast<double>(std::uniform_int_distribution<int>(300, 1500)(random)),
        static_cast<double>(std::uniform_int_distribution<int>(300, 1500)(random))};
    double best_s = kNever, plain_s = kNever;
    for (const Split& cut : all_cuts(6, 2)) {
      for (size_t bits = 0; bits < 64; ++bits) {
        std::vector<BlockCosts> costs = units.plain;
        for (size_t i = 0; i < 6; ++i)
          if ((bits >> i & 1) == 1) costs[i] = units.again[i];
        const auto plan = pipeline::plan_of("1f1b", sizes, costs, cut).partition;
        if (share_of_room(plan.rank_bytes, room) > 1) continue;
        best_s = std::min(best_s, plan.step_s);
        if (bits == 0) plain_s = std::min(plain_s, plan.step_s);
      }
    }
    const CutWithin found = best_cut_within(budget, "1f1b", sizes, units, room);
    auto shares = shares_of(budget, found.first_block, lists, units.bytes);
    for (size_t i = 0; i < shares.size(); ++i) shares[i].bytes = found.share_bytes[i];
    const auto treatment = treatment_of(shares, found.first_block, units);
    ASSERT_TRUE(treatment);
    std::vector<BlockCosts> costs = units.plain;
    for (size_t i = 0; i < 6; ++i)
      if (treatment->checkpointed[i]) costs[i] = units.again[i];
    const auto plan = pipeline::plan_of("1f1b", sizes, costs, found.first_block).partition;
    const bool has_room = share_of_room(plan.rank_bytes, room) <= 1;
    EXPECT_TRUE(best_s < kNever || !has_room);
    with_room += best_s < kNever;
    found_with_room += has_room;
    only_treated += has_room && plain_s == kNever;
    if (has_room)
      EXPECT_LE(plan.step_s, 1.2 * best_s);  // what is exact within a budget is not here
    if (plain_s < kNever) EXPECT_LE(plan.step_s, plain_s);
  }
  EXPECT_GE(found_with_room, with_room - 1);
  EXPECT_GT(only_treated, 10);
}

TEST(PipelineTreatment, CountsCutsAsFarAsItHasTo) {
  EXPECT_EQ(count_of_cuts(12, 4, 1000), 165);
  EXPECT_EQ(count_of_cuts(18, 4, 1000), 680);
  EXPECT_EQ(count_of_cuts(12, 12, 1000), 1);
  EXPECT_EQ(count_of_cuts(30, 29, 1000), 29);
  EXPECT_EQ(count_of_cuts(200, 100, 1000), 1000);
  EXPECT_EQ(count_of_cuts(5, 1, 1000), 1);
}

}  // namespace
}  // namespace muster::train::detail
