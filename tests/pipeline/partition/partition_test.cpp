#include "muster/pipeline/partition/partition.h"

#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/pipeline/simulate/simulator.h"

#include "tests/support/error_of.h"

namespace muster::pipeline {
namespace {

using test::refusal_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

std::vector<BlockCosts> random_blocks(int64_t count, std::mt19937& draw) {
  std::uniform_real_distribution<double> time(.1, 2), transfer(0, .6), bytes(1, 10);
  std::vector<BlockCosts> out;
  for (int64_t i = 0; i < count; ++i) {
    BlockCosts block{.forward_s = time(draw), .input_s = time(draw), .weight_s = time(draw)};
    block.backward_s = .9 * (block.input_s + block.weight_s);
    block.activation_s = transfer(draw);
    block.gradient_s = transfer(draw);
    block.activation_bytes = bytes(draw);
    block.kept_bytes = .5 * block.activation_bytes;
    block.parameter_bytes = bytes(draw);
    block.handed_bytes = .25 * block.activation_bytes;
    block.gradient_bytes = .3 * block.activation_bytes;
    out.push_back(block);
  }
  return out;
}

/// Every split of `blocks` into `stages`, in order.
void all_splits(int64_t blocks, int64_t stages, Split& split, std::vector<Split>& out) {
  if (static_cast<int64_t>(split.size()) == stages) {
    out.push_back(split);
    return;
  }
  for (int64_t cut = split.back() + 1; cut < blocks; ++cut) {
    split.push_back(cut);
    all_splits(blocks, stages, split, out);
    split.pop_back();
  }
}

struct BruteForce {
  double step_s = kInfinite;
  Split split;
};

BruteForce brute_force(const std::vector<BlockCosts>& blocks,
                       const ActionLists& lists,
                       const std::vector<double>& memory) {
  std::vector<Split> splits;
  Split start = {0};
  all_splits(static_cast<int64_t>(blocks.size()), lists.placement.stages(), start, splits);
  const BlockSums sums(blocks);
  const Simulator simulator(lists);
  BruteForce best;
  for (const Split& split : splits) {
    const std::vector<double> bytes = rank_bytes(sums, split, lists);
    bool fits = true;
    for (size_t rank = 0; rank < memory.size(); ++rank) fits = fits && bytes[rank] <= memory[rank];
    const double step = simulator.step_s(stage_times(sums, split));
    if (fits && step < best.step_s) best = {step, split};
  }
  return best;
}

struct Case {
  const char* schedule;
  int64_t per_rank;
};

TEST(PipelinePartition, EqualsBruteForceOnEveryRandomModel) {
  std::mt19937 draw(20261123);
  int64_t with_memory = 0, without_any = 0;
  for (const auto& [schedule, per_rank] : {Case{"gpipe", 1},
                                           Case{"1f1b", 1},
                                           Case{"interleaved", 2},
                                           Case{"zb1p", 1},
                                           Case{"zbv", 2}}) {
    for (int round = 0; round < 24; ++round) {
      const int64_t ranks = per_rank == 2 ? 2 : 2 + round % 3;
      const int64_t stages = ranks * per_rank, micro_batches = 1 + round % 9;
      const int64_t count = stages + static_cast<int64_t>(draw() % (13 - stages));
      const auto blocks = random_blocks(count, draw);
      const ActionLists lists = make_schedule(schedule, {stages, ranks, micro_batches}).lists;
      std::vector<double> memory;
      if (round % 2 == 1) {  // about what an even split needs
        const BlockSums sums(blocks);
        const double all = sums.parameter_bytes(0, count) +
                           sums.bytes(0, count).activation * static_cast<double>(micro_batches);
        memory.assign(static_cast<size_t>(ranks),
                      all * std::uniform_real_distribution<double>(.3, .9)(draw) /
                          static_cast<double>(ranks));
      }
      SCOPED_TRACE(concat(schedule, ", ", count, " blocks, ", stages, " stages, ", micro_batches));
      const BruteForce expected = brute_force(blocks, lists, memory);
      const auto found = partition(blocks, lists, {.memory_bytes = memory});
      ASSERT_EQ(found.has_value(), !expected.split.empty());
      without_any += found ? 0 : 1;
      if (!found) continue;
      with_memory += memory.empty() ? 0 : 1;
      EXPECT_TRUE(found->is_best);
      EXPECT_NEAR(found->step_s, expected.step_s, 1e-9 * expected.step_s);
      const auto hurried = partition(blocks, lists, {.memory_bytes = memory, .most_visits = 1});
      if (hurried) {
        EXPECT_LE(hurried->at_least_s, expected.step_s * (1 + 1e-9));
      }
    }
  }
  EXPECT_GT(with_memory, 10);
  EXPECT_GT(without_any, 0);
}

// A transformer's ends: an embedding that computes little and a head that computes much.
std::vector<BlockCosts> layers_with_a_heavy_head(int64_t count) {
  std::vector<BlockCosts> blocks(static_cast<size_t>(count),
                                 {.forward_s = 1, .backward_s = 2, .input_s = 1, .weight_s = 1});
  blocks.front() = {.forward_s = .25, .backward_s = .5, .input_s = .25, .weight_s = .25};
  blocks.back() = {.forward_s = 3, .backward_s = 6, .input_s = 3, .weight_s = 3};
  return blocks;
}

TEST(PipelinePartition, GivesTheHeavyEndFewerBlocks) {
  const auto blocks = layers_with_a_heavy_head(11);  // 9 layers of 3, a head of 9
  const auto found = partition(blocks, make_schedule("1f1b", {4, 4, 16}).lists);
  ASSERT_TRUE(found);
  EXPECT_THAT(found->first_block, ElementsAre(0, 4, 7, 10));
}

TEST(PipelinePartition, ManyBlocksAreCutWithinFewVisits) {
  std::mt19937 draw(7);
  for (const auto& [schedule, per_rank] : {Case{"gpipe", 1}, Case{"1f1b", 1}, Case{"zb1p", 1}}) {
    const ActionLists lists = make_schedule(schedule, {8 * per_rank, 8, 32}).lists;
    for (const auto& blocks : {layers_with_a_heavy_head(50), random_blocks(50, draw)}) {
      const auto found = partition(blocks, lists, {.most_visits = 20'000});
      ASSERT_TRUE(found);
      EXPECT_TRUE(found->is_best) << schedule;  // of 86 million
      EXPECT_LT(found->steps_simulated, 2'000) << schedule;
    }
  }
}

TEST(PipelinePartition, SaysSoWhenItsSearchIsCutShort) {
  std::mt19937 draw(3);
  const auto blocks = random_blocks(30, draw);
  const ActionLists lists = make_schedule("interleaved", {8, 4, 8}).lists;
  const auto found = partition(blocks, lists, {.most_visits = 3});
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->is_best);
  EXPECT_LT(found->at_least_s, found->step_s);
  EXPECT_GT(found->at_least_s, .5 * found->step_s);
  EXPECT_NEAR(found->step_s,
              Simulator(lists).step_s(stage_times(BlockSums(blocks), found->first_block)),
              1e-9);
}

TEST(PipelinePartition, MemoryMovesTheCutAndMayLeaveNoneAtAll) {
  std::vector<BlockCosts> blocks(4, {.forward_s = 1, .backward_s = 2, .activation_bytes = 10});
  const ActionLists lists = make_schedule("1f1b", {2, 2, 4}).lists;
  EXPECT_THAT(partition(blocks, lists)->first_block, ElementsAre(0, 2));
  // Rank 0 holds two micro-batches: one block of 20 bytes has room.
  const auto tight = partition(blocks, lists, {.memory_bytes = {20, 30}});
  ASSERT_TRUE(tight);
  EXPECT_THAT(tight->first_block, ElementsAre(0, 1));
  EXPECT_THAT(tight->rank_bytes, ElementsAre(20, 30));
  EXPECT_FALSE(partition(blocks, lists, {.memory_bytes = {20, 29}}));
}

TEST(PipelinePartition, RefusesWhatMakesNoSense) {
  const ActionLists lists = make_schedule("1f1b", {2, 2, 4}).lists;
  EXPECT_THAT(refusal_of([&] { partition(std::vector<BlockCosts>(1), lists); }),
              HasSubstr("1 block, 2 stages"));
  EXPECT_THAT(refusal_of([&] {
                partition(std::vector<BlockCosts>{{}, {.forward_s = -1}}, lists);
              }),
              HasSubstr("a cost of block 1"));
  EXPECT_THAT(
      refusal_of([&] { partition(std::vector<BlockCosts>(2), lists, {.memory_bytes = {1}}); }),
      HasSubstr("1 limits, 2 ranks"));
}

}  // namespace
}  // namespace muster::pipeline
