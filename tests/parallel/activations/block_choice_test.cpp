// Which blocks are checkpointed: rules, the peak by its definition, and the cheapest choice by
// brute force.
#include "muster/parallel/activations/block_choice.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace muster {
namespace {

using parallel::BlockBytes;
using parallel::BlockRule;
using parallel::blocks_by_rule;
using parallel::cheapest_choice;
using parallel::parse_block_rule;
using parallel::peak_bytes;
using test::refusal_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<BlockBytes> random_blocks(std::mt19937& random) {
  std::vector<BlockBytes> blocks(1 + random() % 10);
  int64_t bytes = static_cast<int64_t>(random() % 50);
  for (BlockBytes& block : blocks) {
    block.input = bytes;
    block.inner = static_cast<int64_t>(random() % 200);
    bytes = block.output = static_cast<int64_t>(random() % 50);
    block.saves_input = random() % 4 != 0;
    block.saves_output = random() % 3 == 0;
    block.cost = 1 + static_cast<double>(random() % 5);
  }
  return blocks;
}

/// By the definition: each piece of memory that is there while backward is at block i, once.
int64_t peak_by_definition(const std::vector<BlockBytes>& blocks,
                           const std::vector<bool>& again,
                           int64_t in_flight = 1) {
  int64_t most = 0, kept = 0;
  for (size_t at = 0; at < blocks.size(); ++at) {
    int64_t bytes = 0;
    for (size_t i = 0; i <= at; ++i) {
      const bool in_full = i == at || !again[i];
      const bool by_itself = again[i] || blocks[i].saves_input;
      const bool by_the_one_before = i > 0 && !again[i - 1] && blocks[i - 1].saves_output;
      if (by_itself || by_the_one_before) bytes += blocks[i].input;
      if (in_full) bytes += blocks[i].inner;
    }
    kept = bytes - (again[at] ? blocks[at].inner : 0);
    if (blocks[at].saves_output) bytes += blocks[at].output;
    if (blocks[at].saves_output && !again[at]) kept += blocks[at].output;
    most = std::max(most, bytes);
  }
  return most + (in_flight - 1) * kept;
}

std::vector<bool> bits(unsigned mask, size_t count) {
  std::vector<bool> again(count);
  for (size_t i = 0; i < count; ++i) again[i] = (mask >> i & 1U) != 0;
  return again;
}

double cost_of(const std::vector<BlockBytes>& blocks, const std::vector<bool>& again) {
  double cost = 0;
  for (size_t i = 0; i < blocks.size(); ++i) cost += again[i] ? blocks[i].cost : 0;
  return cost;
}

TEST(BlockChoice, PeakIsWhatItsDefinitionSays) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const auto blocks = random_blocks(random);
    const auto again = bits(static_cast<unsigned>(random()), blocks.size());
    for (const int64_t in_flight : {1, 2, 5})
      EXPECT_EQ(peak_bytes(blocks, again, in_flight), peak_by_definition(blocks, again, in_flight));
  }
}

TEST(BlockChoice, IsTheCheapestOneThatFits) {
  std::mt19937 random(2);
  int fits = 0, not_all = 0;
  for (int round = 0; round < 600; ++round) {
    const auto blocks = random_blocks(random);
    const int64_t in_flight = 1 + round % 4;
    const int64_t most = peak_bytes(blocks, bits(0, blocks.size()), in_flight);
    const int64_t budget = static_cast<int64_t>(random() % static_cast<unsigned>(most + 2));
    std::optional<double> least;
    for (unsigned mask = 0; mask < 1U << blocks.size(); ++mask) {
      const auto again = bits(mask, blocks.size());
      if (peak_by_definition(blocks, again, in_flight) > budget) continue;
      least = std::min(least.value_or(1e9), cost_of(blocks, again));
    }
    const auto choice = cheapest_choice(blocks, budget, in_flight);
    ASSERT_EQ(choice.has_value(), least.has_value());
    if (!choice) continue;
    ++fits;
    not_all += *least < cost_of(blocks, bits(~0U, blocks.size())) ? 1 : 0;
    EXPECT_EQ(cost_of(blocks, *choice), *least);
    EXPECT_LE(peak_by_definition(blocks, *choice, in_flight), budget);
  }
  EXPECT_GT(fits, 100);
  EXPECT_GT(not_all, 50);
}

TEST(BlockChoice, OfManyDifferentBlocksFitsAndEndsSoon) {
  std::mt19937 random(3);
  std::vector<BlockBytes> blocks(60);
  for (BlockBytes& block : blocks) {
    block.inner = 1'000'000 + static_cast<int64_t>(random() % 1'000'000);
    block.input = block.output = 100'000;
    block.cost = 1 + static_cast<double>(random()) * 1e-9;
  }
  for (const int64_t in_flight : {1, 4}) {
    const int64_t budget = peak_bytes(blocks, std::vector<bool>(60), in_flight) / 2;
    const auto choice = cheapest_choice(blocks, budget, in_flight);
    ASSERT_TRUE(choice.has_value());
    EXPECT_LE(peak_bytes(blocks, *choice, in_flight), budget);
    EXPECT_GT(peak_bytes(blocks, *choice, in_flight), budget * 95 / 100);
  }
}

TEST(BlockChoice, RulesAreReadAndMeanTheirBlocks) {
  const std::vector<BlockBytes> five(5);
  EXPECT_THAT(blocks_by_rule(parse_block_rule("off", "--x"), five),
              ElementsAre(false, false, false, false, false));
  EXPECT_THAT(blocks_by_rule(parse_block_rule("blocks", "--x"), five),
              ElementsAre(true, true, true, true, true));
  EXPECT_THAT(blocks_by_rule(parse_block_rule("every:2", "--x"), five),
              ElementsAre(false, true, false, true, false));
  EXPECT_EQ(parse_block_rule("budget:1.5KiB", "--x").budget_bytes, 1536);
  EXPECT_EQ(parse_block_rule("budget:2GiB", "--x").budget_bytes, int64_t{2} << 30);
  EXPECT_EQ(parse_block_rule("budget:77", "--x").budget_bytes, 77);
  EXPECT_FALSE(parse_block_rule("budget:77", "--x").is_of_pipeline());
  const BlockRule stages = parse_block_rule("budget:1KiB/77,offload=2GiB", "--x");
  EXPECT_EQ(stages.stage_budgets, (std::vector<int64_t>{1024, 77}));
  EXPECT_EQ(stages.offload_bytes_per_s, int64_t{2} << 30);
  EXPECT_TRUE(stages.is_of_pipeline());
  EXPECT_EQ(parse_block_rule("budget:77,offload=off", "--x").offload_bytes_per_s, 0);
  for (const char* text : {"budget:1/", "budget:1/x", "budget:1,offload=", "budget:1,offload=no"})
    EXPECT_THAT(refusal_of([&] { parse_block_rule(text, "--x"); }), HasSubstr("budget:BYTES"));
}

TEST(BlockChoice, RefusesOtherWordsAndBudgetsThatNothingFits) {
  for (const char* text : {"",
                           "on",
                           "every:",
                           "every:0",
                           "every:x",
                           "budget:",
                           "budget:0",
                           "budget:-1MiB",
                           "budget:1MB"})
    EXPECT_THAT(refusal_of([&] { parse_block_rule(text, "--flag"); }),
                HasSubstr("--flag: off, blocks, every:K or budget:BYTES"));
  const std::vector<BlockBytes> two(2, {.input = 10, .inner = 100, .output = 10});
  EXPECT_THAT(refusal_of([&] { blocks_by_rule(parse_block_rule("budget:50", "--x"), two); }),
              HasSubstr("they need 120 bytes at least, with 1 of 2 blocks run again (got 50 B)\n"
                        "hint: take budget:120 or more"));
  // Run again it would keep what came in.
  const std::vector<BlockBytes> shrinks{
      {.input = 100, .output = 10, .saves_input = false, .saves_output = true}};
  EXPECT_THAT(
      refusal_of([&] { blocks_by_rule(parse_block_rule("budget:5", "--x"), shrinks, 1, 7); }),
      HasSubstr("they need 17 bytes at least, with 0 of 1 blocks run again (got 5 B)"));
}

}  // namespace
}  // namespace muster
