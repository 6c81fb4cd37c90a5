// Costs of blocks, measured: bytes are counted, nothing is changed.
#include "muster/parallel/pipeline/measure.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"

#include "tests/parallel/pipeline/nets.h"
#include "tests/support/error_of.h"

namespace muster {
namespace {

using parallel::Block;
using parallel::block;
using parallel::measure_blocks;
using parallel::MicroBatch;
using parallel::Tensors;
using ::testing::HasSubstr;

constexpr double kFloat = sizeof(float);

TEST(MeasureBlocks, CountsWhatAutogradKeepsOnceAndWhatTheSecondHalfNeeds) {
  torch::manual_seed(1);
  torch::nn::Linear first(6, 8), last(8, 2);
  const std::vector<Block> blocks{
      block("first", first),
      {"tanh", {}, [](const Tensors& in) -> Tensors { return {in[0].tanh()}; }},
      block("last", last)};
  const MicroBatch example{{torch::randn({5, 6})}, {torch::randn({5, 2})}, 5};
  const auto costs =
      measure_blocks(blocks, example, &test::squares, c10::kCPU, {.bytes_per_s = 100});
  ASSERT_EQ(costs.size(), 3U);
  // A Linear keeps its input, for its weight.
  EXPECT_EQ(costs[0].activation_bytes, 5 * 6 * kFloat);
  EXPECT_EQ(costs[0].kept_bytes, 5 * 6 * kFloat);
  EXPECT_EQ(costs[0].input_bytes, 0);
  EXPECT_EQ(costs[0].output_bytes, 5 * 8 * kFloat);
  EXPECT_EQ(costs[0].parameter_bytes, 2 * (6 * 8 + 8) * kFloat);
  // tanh keeps its output, for its input alone.
  EXPECT_EQ(costs[1].activation_bytes, 5 * 8 * kFloat);
  EXPECT_EQ(costs[1].kept_bytes, 0);
  EXPECT_EQ(costs[1].input_bytes, 5 * 8 * kFloat);
  EXPECT_EQ(costs[1].output_bytes, 0);
  EXPECT_EQ(costs[1].parameter_bytes, 0);
  // The difference that the loss squares; its input is tanh's output, which is kept once. Behind
  // the first half it is this one's alone.
  EXPECT_EQ(costs[2].activation_bytes, 5 * 2 * kFloat);
  EXPECT_EQ(costs[2].input_bytes, 5 * 8 * kFloat);
  EXPECT_EQ(costs[2].kept_bytes, 5 * 8 * kFloat);
  // Letters: behind the last block nobody takes one.
  EXPECT_EQ(costs[0].gradient_bytes, 5 * 8 * kFloat);
  EXPECT_EQ(costs[1].gradient_bytes, 5 * 8 * kFloat);
  EXPECT_EQ(costs[2].gradient_bytes, 0);
  EXPECT_EQ(costs[0].handed_bytes, 5 * 8 * kFloat);
  for (const auto& block : costs) {
    EXPECT_GT(block.forward_s, 0);
    EXPECT_GT(block.backward_s, 0);
  }
  EXPECT_EQ(costs[0].activation_s, 5 * 8 * kFloat / 100);
  EXPECT_EQ(costs[1].gradient_s, 5 * 8 * kFloat / 100);
}

// It keeps its input alone; what it has while it runs again comes once, with the work.
TEST(MeasureBlocks, ACheckpointedBlockKeepsItsInputAndWorksWithTheRest) {
  torch::manual_seed(1);
  torch::nn::Linear first(6, 8), last(8, 2);
  int64_t calls = 0;
  const auto tanhs = [&](const Tensors& in) -> Tensors {
    ++calls;
    return {in[0].tanh().tanh()};
  };
  const std::vector<Block> blocks{block("first", first), {"tanhs", {}, tanhs}, block("last", last)};
  const MicroBatch example{{torch::randn({5, 6})}, {torch::randn({5, 2})}, 5};
  const auto costs_of = [&](std::vector<bool> checkpointed) {
    calls = 0;
    return measure_blocks(blocks,
                          example,
                          &test::squares,
                          c10::kCPU,
                          {.warm_up = 0, .repeats = 1, .checkpointed = std::move(checkpointed)});
  };
  constexpr double kBetween = 5 * 8 * kFloat;
  const auto plain = costs_of({});
  EXPECT_EQ(calls, 2);  // for the whole backward, and for its halves
  EXPECT_EQ(plain[1].activation_bytes, 2 * kBetween);
  EXPECT_EQ(plain[1].work_bytes, 2 * kBetween);
  const auto again = costs_of({false, true, true});
  EXPECT_EQ(calls, 5);  // twice more in backward, and once to look at what it keeps
  EXPECT_EQ(again[1].activation_bytes, kBetween);
  EXPECT_EQ(again[1].input_bytes, 0);
  EXPECT_EQ(again[1].output_bytes, kBetween);
  EXPECT_EQ(again[1].kept_bytes, 0);
  EXPECT_EQ(again[1].work_bytes, (2 + 2) * kBetween);
  // Its input, which the block before does not hold, and the difference that the loss squares.
  EXPECT_EQ(again[2].activation_bytes, kBetween + 5 * 2 * kFloat);
  EXPECT_EQ(again[0].activation_bytes, plain[0].activation_bytes);
}

TEST(MeasureBlocks, LeavesParametersBuffersGradientsAndGeneratorsAlone) {
  torch::manual_seed(2);
  torch::nn::Sequential net(
      torch::nn::Linear(4, 4), torch::nn::BatchNorm1d(4), torch::nn::Dropout(0.5));
  const torch::Tensor x = torch::randn({6, 4}), y = torch::randn({6, 4});
  net->forward(x).sum().backward();
  std::vector<torch::Tensor> before;
  const auto all = [&] {
    std::vector<torch::Tensor> tensors;
    for (const torch::Tensor& one : net->parameters()) {
      tensors.push_back(one.detach().clone());
      tensors.push_back(one.grad().clone());
    }
    for (const torch::Tensor& one : net->buffers()) tensors.push_back(one.clone());
    return tensors;
  };
  before = all();
  torch::manual_seed(3);
  const torch::Tensor next = torch::rand({3});
  torch::manual_seed(3);
  measure_blocks(parallel::blocks_of(net), {{x}, {y}, 6}, &test::squares, c10::kCPU);
  EXPECT_TRUE(torch::equal(torch::rand({3}), next));
  const auto after = all();
  for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(torch::equal(before[i], after[i])) << i;
}

TEST(MeasureBlocks, ABlockThatThrowsIsNamed) {
  const std::vector<Block> blocks{
      {"fine", {}, [](const Tensors& in) { return in; }},
      {"bad", {}, [](const Tensors&) -> Tensors { throw std::out_of_range("no such row"); }}};
  EXPECT_THAT(test::error_of([&] {
                measure_blocks(blocks, {{torch::ones({2})}, {}, 2}, {}, c10::kCPU);
              }),
              HasSubstr("block bad"));
}

}  // namespace
}  // namespace muster
