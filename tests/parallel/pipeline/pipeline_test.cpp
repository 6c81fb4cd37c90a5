// Pipelines in one process: the gradients of one device, whatever the schedule and the cuts.
#include "muster/parallel/pipeline/pipeline.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/pipeline/schedule/schedule.h"

#include "tests/parallel/pipeline/nets.h"
#include "tests/support/distance.h"
#include "tests/support/seed.h"

namespace muster {
namespace {

using parallel::blocks_of;
using parallel::Pipeline;
using parallel::PipelineOptions;
using parallel::PipelineStep;
using parallel::Tensors;
using test::Chain;
using test::difference;
using test::gradients_of;
using test::gradients_on_one_device;
using test::random_split;
using test::ranks_on_cpu;
using test::squares;
using ::testing::HasSubstr;

struct Case {
  std::string schedule;
  int64_t stages_per_rank;
};

std::vector<Case> all_schedules() {
  std::vector<Case> cases;
  for (const auto* entry : pipeline::schedules())
    cases.push_back({std::string(entry->name), entry->stages_per_rank});
  cases.push_back({"1f1b:eager=true", 1});
  cases.push_back({"zb1p", 2});
  return cases;
}

/// Of every schedule, over random chains.
void expect_gradients_of_one_device(torch::Dtype dtype, double tolerance) {
  const unsigned seed = test::seed_of_test();
  SCOPED_TRACE(concat("repeat with MUSTER_TEST_SEED=", seed));
  std::mt19937 random(seed);
  for (const Case& schedule : all_schedules()) {
    for (int64_t ranks = 1; ranks <= 4; ++ranks) {
      for (int64_t micro_batches = 1; micro_batches <= 8; ++micro_batches) {
        const int64_t stages = ranks * schedule.stages_per_rank;
        Chain chain(int(stages + int64_t(random() % 3)), random(), dtype);
        const int64_t rows = micro_batches + int64_t(random() % 9);  // mostly uneven
        const torch::Tensor x = chain.inputs(rows), y = chain.targets(rows);
        const auto expected = gradients_on_one_device(chain, x, y);
        const double loss = squares({chain.net->forward(x)}, {y}).item<double>();
        SCOPED_TRACE(
            concat(schedule.schedule, ", ", ranks, " ranks, ", micro_batches, " of ", rows));
        PipelineOptions options{.schedule = schedule.schedule, .micro_batches = micro_batches};
        options.first_block = random_split(int64_t(chain.net->size()), stages, random);
        Pipeline pipe(blocks_of(chain.net), ranks_on_cpu(ranks), &squares, options);
        const PipelineStep step = pipe.step({x}, {y});
        EXPECT_LE(difference(gradients_of(chain.net->parameters()), expected), tolerance);
        EXPECT_NEAR(step.loss.item<double>(), loss, tolerance * std::max(1.0, loss));
      }
    }
  }
}

TEST(Pipeline, GradientsAreThoseOfOneDeviceInDouble) {
  expect_gradients_of_one_device(torch::kDouble, 1e-12);
}

TEST(Pipeline, GradientsAreThoseOfOneDeviceInFloat) {
  expect_gradients_of_one_device(torch::kFloat, 1e-5);
}

TEST(Pipeline, TwentyOptimizerStepsAreThoseOfOneDevice) {
  for (const Case& schedule : all_schedules()) {
    SCOPED_TRACE(schedule.schedule);
    Chain alone(6, 7), cut(6, 7);
    const int64_t stages = 2 * schedule.stages_per_rank;
    PipelineOptions options{.schedule = schedule.schedule, .micro_batches = 4};
    std::mt19937 random(3);
    options.first_block = random_split(6, stages, random);
    Pipeline pipe(blocks_of(cut.net), ranks_on_cpu(2), &squares, options);
    torch::optim::AdamW one(alone.net->parameters(), 0.01), two(pipe.parameters(), 0.01);
    torch::manual_seed(5);
    for (int i = 0; i < 20; ++i) {
      const torch::Tensor x = alone.inputs(10), y = alone.targets(10);
      one.zero_grad();
      squares({alone.net->forward(x)}, {y}).backward();
      one.step();
      two.zero_grad();
      pipe.step({x}, {y});
      two.step();
    }
    EXPECT_LE(difference(alone.net->parameters(), cut.net->parameters()), 1e-12);
  }
}

TEST(Pipeline, StepsAddUpAndScaleAndTwoRunsGiveTheSameBits) {
  Chain chain(5, 11);
  const torch::Tensor x = chain.inputs(9), y = chain.targets(9);
  Pipeline pipe(blocks_of(chain.net),
                ranks_on_cpu(2),
                &squares,
                {.schedule = "zb1p", .micro_batches = 4, .first_block = {0, 2}});
  pipe.step({x}, {y});
  const auto once = gradients_of(pipe.parameters());
  pipe.zero_grad();
  pipe.step({x}, {y});
  const auto again = gradients_of(pipe.parameters());
  for (size_t i = 0; i < once.size(); ++i) EXPECT_TRUE(torch::equal(once[i], again[i]));
  pipe.step({x}, {y}, 3.0);
  const auto four = gradients_of(pipe.parameters());
  for (size_t i = 0; i < once.size(); ++i)
    EXPECT_LE((four[i] - 4 * once[i]).abs().max().item<double>(), 1e-12);
}

TEST(Pipeline, ALossThatIsASumIsAddedUpAndCountsWeighMeans) {
  Chain chain(4, 13);
  const torch::Tensor x = chain.inputs(7), y = chain.targets(7);
  const auto sum = [](const Tensors& out, const Tensors& target) {
    return (out[0] - target[0]).pow(2).sum();
  };
  sum({chain.net->forward(x)}, {y}).backward();
  const auto expected = gradients_of(chain.net->parameters());
  chain.net->zero_grad();
  Pipeline summed(
      blocks_of(chain.net),
      ranks_on_cpu(2),
      sum,
      {.micro_batches = 3, .first_block = {0, 2}, .reduction = parallel::LossReduction::kSum});
  EXPECT_NEAR(summed.step({x}, {y}).loss.item<double>(),
              sum({chain.net->forward(x)}, {y}).item<double>(),
              1e-12);
  EXPECT_LE(difference(gradients_of(chain.net->parameters()), expected), 1e-12);
  chain.net->zero_grad();

  // A mean over rows that count: of a masked loss, where a micro-batch may have none at all.
  const torch::Tensor mask = torch::tensor({1, 0, 1, 1, 0, 0, 1}, torch::kDouble);
  const auto masked = [](const Tensors& out, const Tensors& target) {
    return ((out[0] - target[0]).pow(2).mean(1) * target[1]).sum() / target[1].sum();
  };
  masked({chain.net->forward(x)}, {y, mask}).backward();
  const auto of_masked = gradients_of(chain.net->parameters());
  chain.net->zero_grad();
  std::vector<parallel::MicroBatch> parts;
  for (const auto& [from, to] : {std::pair{0, 3}, {3, 4}, {4, 6}, {6, 7}}) {
    const auto rows = torch::indexing::Slice(from, to);
    parts.push_back({{x.index({rows})},
                     {y.index({rows}), mask.index({rows})},
                     mask.index({rows}).sum().item<double>()});
  }
  Pipeline counted(blocks_of(chain.net), ranks_on_cpu(2), masked, {.first_block = {0, 2}});
  counted.step(parts);
  EXPECT_LE(difference(gradients_of(chain.net->parameters()), of_masked), 1e-12);
}

TEST(Pipeline, CheckpointedBlocksChangeNoBit) {
  for (const std::string schedule : {"1f1b", "zb1p"}) {
    Chain chain(6, 29, torch::kDouble, /*in_place=*/false);
    const torch::Tensor x = chain.inputs(8), y = chain.targets(8);
    const auto of = [&](std::vector<bool> checkpointed) {
      Pipeline pipe(blocks_of(chain.net),
                    ranks_on_cpu(2),
                    &squares,
                    {.schedule = schedule,
                     .micro_batches = 4,
                     .first_block = {0, 3},
                     .checkpointed = std::move(checkpointed)});
      pipe.zero_grad();
      pipe.step({x}, {y});
      return gradients_of(pipe.parameters());
    };
    const auto plain = of({}), again = of({true, true, false, true, true, true});
    for (size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(torch::equal(plain[i], again[i])) << i;
  }
}

TEST(Pipeline, ATimelineHasEachActionOfEachRankInOrder) {
  Chain chain(4, 31);
  Pipeline pipe(
      blocks_of(chain.net), ranks_on_cpu(2), &squares, {.micro_batches = 3, .first_block = {0, 2}});
  const pipeline::Timeline timeline = pipe.step({chain.inputs(6)}, {chain.targets(6)}).timeline;
  const auto list = [&](size_t rank) {
    std::string text;
    for (const auto& span : timeline.ranks.at(rank)) text += to_text(span.action) + " ";
    return text;
  };
  EXPECT_EQ(list(0),
            "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0F2 0SEND_F2 0RECV_B1 0B1 0RECV_B2 0B2 "
            "0REDUCE_GRAD ");
  EXPECT_EQ(list(1),
            "1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1 1RECV_F2 1F2 1B2 1SEND_B2 "
            "1REDUCE_GRAD ");
  for (const auto& rank : timeline.ranks)
    for (size_t i = 1; i < rank.size(); ++i) {
      EXPECT_LE(rank[i - 1].end_s, rank[i].start_s);
      EXPECT_LE(rank[i].start_s, rank[i].end_s);
    }
}

TEST(Pipeline, GradientsAreAveragedOnceForEachStageWhenTheyAreWhole) {
  Chain chain(4, 37);
  std::array<std::atomic<int>, 4> calls{};
  PipelineOptions options{.schedule = "interleaved", .micro_batches = 4};
  const torch::Tensor x = chain.inputs(8), y = chain.targets(8);
  const auto expected = gradients_on_one_device(chain, x, y);
  Pipeline* self = nullptr;
  options.average = [&](int64_t stage) {
    ++calls[size_t(stage)];
    for (const auto& [name, parameter] : self->parameters_of_stage(stage)) parameter.grad().mul_(2);
  };
  Pipeline pipe(blocks_of(chain.net), ranks_on_cpu(2), &squares, options);
  self = &pipe;
  pipe.step({x}, {y});
  for (const auto& count : calls) EXPECT_EQ(count, 1);
  auto found = gradients_of(chain.net->parameters());
  for (auto& gradient : found) gradient = gradient / 2;
  EXPECT_LE(difference(found, expected), 1e-12);
}

}  // namespace
}  // namespace muster
