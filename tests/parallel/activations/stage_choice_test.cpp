// What stages do within a budget: the cheapest of all ways, by counting them.
#include "muster/parallel/activations/stage_choice.h"

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace muster::parallel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<BudgetStage> random_stages(std::mt19937& random) {
  std::vector<BudgetStage> stages(1 + random() % 3);
  for (BudgetStage& stage : stages) {
    stage.in_flight = 1 + static_cast<int64_t>(random() % 4);
    stage.blocks.resize(1 + random() % 3);
    int64_t between = static_cast<int64_t>(random() % 20);
    for (BlockBytes& block : stage.blocks) {
      block.input = between;
      block.inner = static_cast<int64_t>(random() % 60);
      block.output = between = static_cast<int64_t>(random() % 20);
      block.saves_input = random() % 2 == 0;
      block.saves_output = random() % 2 == 0;
      block.cost = 1 + static_cast<double>(random() % 9);
    }
  }
  return stages;
}

/// What a stage keeps of a micro-batch: what came in, and of blocks that run plainly what is inside and
/// between them.
struct Kept {
  int64_t always = 0;  // until backward
  int64_t peak = 0;    // while backward is at one of its blocks, what lies before it included
};

/// By Note [Bytes of stages] and Note [Bytes of blocks], for blocks in a row.
Kept kept_by_definition(const std::vector<BlockBytes>& blocks, const std::vector<bool>& again) {
  Kept kept;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const bool by_block_before = i > 0 && !again[i - 1] && blocks[i - 1].saves_output;
    if (again[i] || blocks[i].saves_input || by_block_before) kept.always += blocks[i].input;
    kept.peak = std::max(
        kept.peak, kept.always + blocks[i].inner + (blocks[i].saves_output ? blocks[i].output : 0));
    if (!again[i]) kept.always += blocks[i].inner;
  }
  if (!blocks.empty() && !again.back() && blocks.back().saves_output)
    kept.always += blocks.back().output;
  return kept;
}

int64_t peak_by_definition(const std::vector<BudgetStage>& stages,
                           const StageTreatment& treatment) {
  std::vector<BlockBytes> row;
  std::vector<bool> again;
  int64_t in_flight = 1, ends = 0, stays = 0, passes = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    std::vector<BlockBytes> blocks = stages[s].blocks;
    blocks.front().saves_input = true;
    blocks.back().saves_output = false;
    if (treatment.offloaded[s]) {
      stays += stages[s].in_flight * (blocks.front().input + blocks.back().output);
      passes = std::max(passes,
                        kept_by_definition(blocks, std::vector<bool>(blocks.size(), false)).peak);
      continue;
    }
    row.insert(row.end(), blocks.begin(), blocks.end());
    again.insert(again.end(), treatment.again[s].begin(), treatment.again[s].end());
    in_flight = std::max(in_flight, stages[s].in_flight);
    ends += blocks.back().output;
  }
  const Kept kept = kept_by_definition(row, again);
  return kept.peak + (in_flight - 1) * kept.always + in_flight * ends + stays + passes;
}

double cost_by_definition(const std::vector<BudgetStage>& stages,
                          const StageTreatment& treatment,
                          double bytes_per_s) {
  double cost = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    std::vector<BlockBytes> blocks = stages[s].blocks;
    blocks.front().saves_input = true;
    blocks.back().saves_output = false;
    if (treatment.offloaded[s])
      cost += 2 *
              static_cast<double>(
                  kept_by_definition(blocks, std::vector<bool>(blocks.size(), false)).peak) /
              bytes_per_s;
    for (size_t i = 0; i < blocks.size(); ++i)
      if (!treatment.offloaded[s] && treatment.again[s][i]) cost += blocks[i].cost;
  }
  return cost;
}

/// Every way: of each stage, to offload it or not, and of its blocks, which run again.
std::vector<StageTreatment> all_treatments(const std::vector<BudgetStage>& stages, bool offloads) {
  std::vector<StageTreatment> all(1);
  for (const BudgetStage& stage : stages) {
    std::vector<StageTreatment> longer;
    const size_t count = stage.blocks.size();
    for (const StageTreatment& way : all) {
      for (unsigned mask = 0; mask < (1U << count) + (offloads ? 1U : 0U); ++mask) {
        StageTreatment next = way;
        next.offloaded.push_back(mask == 1U << count);
        std::vector<bool> again(count);
        for (size_t i = 0; i < count && !next.offloaded.back(); ++i)
          again[i] = (mask >> i & 1U) != 0;
        next.again.push_back(again);
        longer.push_back(std::move(next));
      }
    }
    all = std::move(longer);
  }
  return all;
}

TEST(StageChoice, IsTheCheapestOfAllWays) {
  std::mt19937 random(7);
  int found = 0, offloaded = 0, mixed = 0, none = 0;
  for (int round = 0; round < 400; ++round) {
    const auto stages = random_stages(random);
    const double bytes_per_s = round % 4 == 0 ? 0 : 1 + static_cast<double>(random() % 60);
    const auto all = all_treatments(stages, bytes_per_s > 0);
    StageTreatment plain;
    for (const BudgetStage& stage : stages) {
      plain.again.emplace_back(stage.blocks.size(), false);
      plain.offloaded.push_back(false);
    }
    const auto most = static_cast<unsigned>(peak_by_definition(stages, plain) + 2);
    const auto budget = static_cast<int64_t>(random() % most);
    std::optional<double> least;
    for (const StageTreatment& way : all) {
      EXPECT_EQ(peak_bytes(stages, way), peak_by_definition(stages, way));
      if (peak_by_definition(stages, way) > budget) continue;
      const double cost = cost_by_definition(stages, way, bytes_per_s);
      least = std::min(least.value_or(cost), cost);
    }
    const auto choice = cheapest_treatment(stages, budget, bytes_per_s);
    ASSERT_EQ(choice.has_value(), least.has_value()) << round;
    none += choice ? 0 : 1;
    if (!choice) continue;
    ++found;
    EXPECT_LE(peak_by_definition(stages, *choice), budget);
    EXPECT_NEAR(choice->cost, *least, 1e-9);
    EXPECT_NEAR(choice->cost, cost_by_definition(stages, *choice, bytes_per_s), 1e-9);
    const bool sends = std::ranges::count(choice->offloaded, true) > 0;
    const bool again = std::ranges::any_of(
        choice->again, [](const auto& of_stage) { return std::ranges::count(of_stage, true) > 0; });
    if (bytes_per_s == 0) {
      EXPECT_FALSE(sends);
    }
    offloaded += sends ? 1 : 0;
    mixed += sends && again ? 1 : 0;
  }
  EXPECT_GT(found, 100);
  EXPECT_GT(none, 20);
  EXPECT_GT(offloaded, 20);
  EXPECT_GT(mixed, 1);
}

TEST(StageChoice, TakesNothingWhereAllFitsAndTheHostWhereItIsNear) {
  const std::vector<BudgetStage> one{
      {.blocks = {{.input = 10, .inner = 90, .output = 10, .cost = 2},
                  {.input = 10, .inner = 90, .output = 10, .cost = 2}},
       .in_flight = 3}};
  // Three micro-batches of 200 and their ends of 10.
  EXPECT_EQ(cheapest_treatment(one, 630, 1e9)->cost, 0);
  EXPECT_THAT(cheapest_treatment(one, 629, 1e9)->offloaded, ElementsAre(true));
  EXPECT_THAT(cheapest_treatment(one, 629, 1)->offloaded, ElementsAre(false));
  EXPECT_THAT(cheapest_treatment(one, 629, 0)->offloaded, ElementsAre(false));
  // Ends of three, and all of one that is on its way.
  EXPECT_TRUE(cheapest_treatment(one, 3 * 20 + 200, 1e9));
  EXPECT_THAT(test::refusal_of([&] { treatment_within(one, 10, 0, "stage 1 on rank 1"); }),
              HasSubstr("activations of stage 1 on rank 1: 2 blocks within a budget: they need 180 "
                        "bytes at least, with 2 blocks run again (got 10 B)\n"
                        "hint: take budget:180 or more"));
}

// What lies between the two blocks is large: run again they keep it of each micro-batch, and on the
// host it is there of one at a time.
TEST(StageChoice, ARefusalNamesTheLeastThatAnyWayNeeds) {
  const std::vector<BudgetStage> one{
      {.blocks = {{.input = 10, .output = 200}, {.input = 200, .output = 10}}, .in_flight = 3}};
  EXPECT_THAT(test::refusal_of([&] { treatment_within(one, 10, 0); }),
              HasSubstr("they need 660 bytes at least (got 10 B)"));
  EXPECT_THAT(test::refusal_of([&] { treatment_within(one, 10, 1e9); }),
              HasSubstr("they need 270 bytes at least, with 1 stage on the host (got 10 B)\n"
                        "hint: take budget:270 or more"));
  std::mt19937 random(9);
  int mixed = 0;
  for (int round = 0; round < 400; ++round) {
    const auto stages = random_stages(random);
    const double bytes_per_s = round % 2;
    int64_t least = std::numeric_limits<int64_t>::max();
    StageTreatment how;
    for (const StageTreatment& way : all_treatments(stages, bytes_per_s > 0)) {
      const int64_t bytes = peak_by_definition(stages, way);
      if (bytes < least) how = way;
      least = std::min(least, bytes);
    }
    EXPECT_EQ(least_budget(stages, bytes_per_s), least) << round;
    const auto offloaded = std::ranges::count(how.offloaded, true);
    mixed += offloaded > 0 && offloaded < std::ssize(stages) ? 1 : 0;
  }
  EXPECT_GT(mixed, 1);
}

}  // namespace
}  // namespace muster::parallel
