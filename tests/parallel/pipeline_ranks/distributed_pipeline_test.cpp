// Pipelines of ranks: the gradients of one device, over every backend, with replicas too.
#include "muster/parallel/pipeline_ranks/distributed_pipeline.h"

#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/device_mesh.h"
#include "muster/pipeline/schedule/schedule.h"

#include "tests/parallel/pipeline/nets.h"
#include "tests/parallel/pipeline_ranks/ranks.h"
#include "tests/support/distance.h"
#include "tests/support/error_of.h"
#include "tests/support/seed.h"

namespace muster {
namespace {

using distributed::DeviceMesh;
using distributed::ProcessGroup;
using distributed::ThreadWorld;
using parallel::Block;
using parallel::blocks_of;
using parallel::DistributedPipeline;
using parallel::DistributedPipelineOptions;
using parallel::PipelineStep;
using parallel::Tensors;
using test::Chain;
using test::chains;
using test::difference;
using test::expect_own_gradients;
using test::gradients_of;
using test::gradients_on_one_device;
using test::random_split;
using test::squares;
using test::step_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<std::string> schedules_with_options() {
  std::vector<std::string> names;
  for (const auto* entry : pipeline::schedules()) names.emplace_back(entry->name);
  names.emplace_back("1f1b:eager=true");
  return names;
}

int64_t stages_per_rank(const std::string& schedule) {
  for (const auto* entry : pipeline::schedules())
    if (schedule == entry->name) return entry->stages_per_rank;
  return 1;
}

class PipelineOfRanks : public ::testing::TestWithParam<std::string> {};

TEST_P(PipelineOfRanks, HasTheGradientsOfOneDevice) {
  const unsigned seed = test::seed_of_test();
  SCOPED_TRACE(concat("repeat with MUSTER_TEST_SEED=", seed));
  std::mt19937 random(seed);
  int runs = 0;
  const bool few = GetParam() == "gloo";  // whose groups take time to make
  for (const std::string& schedule : schedules_with_options()) {
    for (const int64_t ranks : {1, 2, 3, 4}) {
      if (few && ranks % 2 == 1) continue;
      const torch::Dtype dtype = random() % 2 == 0 ? torch::kDouble : torch::kFloat;
      const double tolerance = dtype == torch::kDouble ? 1e-12 : 1e-5;
      const int64_t stages = ranks * stages_per_rank(schedule);
      const auto nets = chains(ranks, int(stages + int64_t(random() % 3)), random(), dtype);
      const pipeline::Split split = random_split(int64_t(nets[0].net->size()), stages, random);
      std::vector<std::pair<torch::Tensor, torch::Tensor>> batches;
      std::vector<std::vector<torch::Tensor>> expected;
      std::vector<double> losses;
      for (const int64_t rows : {8, 11, 13}) {
        batches.emplace_back(nets[0].inputs(rows), nets[0].targets(rows));
        Chain alone = nets[0];
        const auto& [x, y] = batches.back();
        losses.push_back(squares({alone.net->forward(x)}, {y}).item<double>());
        expected.push_back(gradients_on_one_device(alone, x, y));
      }
      const int64_t micro_batches = stages_per_rank(schedule) > 1 ? 2 * ranks : 5;
      SCOPED_TRACE(concat(schedule, ", ", ranks, " ranks, ", micro_batches, " micro-batches"));
      ThreadWorld(int(ranks), std::chrono::minutes(1), GetParam()).run([&](ProcessGroup group) {
        const Chain& mine = nets[size_t(group.rank())];
        DistributedPipeline pipe(
            blocks_of(mine.net),
            group,
            &squares,
            {.schedule = schedule, .micro_batches = micro_batches, .first_block = split});
        for (size_t i = 0; i < batches.size(); ++i) {
          pipe.zero_grad();
          const PipelineStep step = step_of(pipe, batches[i].first, batches[i].second);
          expect_own_gradients(pipe, mine, expected[i], tolerance);
          EXPECT_NEAR(step.loss.item<double>(), losses[i], tolerance * std::max(1.0, losses[i]));
        }
      });
      ++runs;
    }
  }
  EXPECT_GE(runs, 12);
}

INSTANTIATE_TEST_SUITE_P(Backends,
                         PipelineOfRanks,
                         ::testing::Values("thread", "shm", "gloo"),
                         [](const auto& info) { return info.param; });

TEST(DistributedPipeline, TwentyOptimizerStepsWithReplicasAreThoseOfOneDevice) {
  for (const std::string schedule : {"1f1b", "zbv"}) {
    SCOPED_TRACE(schedule);
    const auto nets = chains(4, 8, 7, torch::kDouble);
    Chain alone(8, 7);
    torch::optim::AdamW one(alone.net->parameters(), 0.01);
    std::vector<std::pair<torch::Tensor, torch::Tensor>> batches;
    torch::manual_seed(5);
    for (int i = 0; i < 20; ++i) {
      batches.emplace_back(alone.inputs(12), alone.targets(12));
      one.zero_grad();
      squares({alone.net->forward(batches[i].first)}, {batches[i].second}).backward();
      one.step();
    }
    {  // replicas begin with what the first one has
      torch::NoGradGuard no_grad;
      for (const size_t rank : {2, 3})
        for (torch::Tensor parameter : nets[rank].net->parameters()) parameter.add_(1);
    }
    ThreadWorld(4, std::chrono::minutes(1), "shm").run([&](const ProcessGroup& world) {
      const DeviceMesh mesh(world, {{"data", 2}, {"pipeline", 2}});
      const Chain& mine = nets[size_t(world.rank())];
      DistributedPipeline pipe(
          blocks_of(mine.net),
          mesh,
          &squares,
          {.schedule = schedule,
           .micro_batches = 4,
           .first_block = schedule == "zbv" ? pipeline::Split{0, 2, 3, 6} : pipeline::Split{0, 4}});
      torch::optim::AdamW two(pipe.parameters(), 0.01);
      for (const auto& [x, y] : batches) {
        two.zero_grad();
        const int64_t from = 6 * mesh.coordinate("data");
        step_of(pipe, x.narrow(0, from, 6), y.narrow(0, from, 6));
        two.step();
      }
      pipe.gather_model(1);
      if (mesh.coordinate("pipeline") == 1) {
        EXPECT_LE(difference(alone.net->parameters(), mine.net->parameters()), 1e-12);
      }
    });
  }
}

/// A Linear whose weight and input's transpose are one, far apart.
struct Tied {
  explicit Tied(unsigned seed) {
    torch::manual_seed(seed);
    for (int i = 0; i < 4; ++i)
      net->push_back(torch::nn::Linear(torch::nn::LinearOptions(3, 3).bias(i % 2 == 1)));
    net->to(torch::kDouble);
  }
  torch::Tensor weight(size_t i) const { return net->ptr(i)->as<torch::nn::LinearImpl>()->weight; }
  torch::nn::Sequential net;
};

TEST(DistributedPipeline, TiedParametersStayOneOverRanks) {
  Tied one(1);
  torch::manual_seed(2);
  const torch::Tensor x = torch::randn({6, 3}, torch::kDouble);
  const torch::Tensor y = torch::randn({6, 3}, torch::kDouble);
  {
    torch::NoGradGuard no_grad;
    one.weight(2).copy_(one.weight(0));
  }
  squares({one.net->forward(x)}, {y}).backward();
  const torch::Tensor sum = one.weight(0).grad() + one.weight(2).grad();
  std::vector<Tied> nets{Tied(1), Tied(1)};
  ThreadWorld(2).run([&](ProcessGroup group) {
    Tied& mine = nets[size_t(group.rank())];
    DistributedPipeline pipe(blocks_of(mine.net),
                             group,
                             &squares,
                             {.micro_batches = 3,
                              .first_block = {0, 2},
                              .tied = {{.follower = "2.weight", .owner = "0.weight"}}});
    EXPECT_EQ(pipe.parameters().size(), group.rank() == 0 ? 3u : 2u);
    torch::optim::SGD optimizer(pipe.parameters(), 0.1);
    for (int i = 0; i < 3; ++i) {
      optimizer.zero_grad();
      pipe.step({x}, {y});
      if (i == 0 && group.rank() == 0) {
        EXPECT_LE(difference({mine.weight(0).grad()}, {sum}), 1e-12);
      }
      optimizer.step();
    }
    pipe.gather_model(0);
  });
  EXPECT_TRUE(torch::equal(nets[0].weight(0), nets[0].weight(2)));
}

TEST(DistributedPipeline, InfersAndGathersTheTimesOfAllRanks) {
  const auto nets = chains(3, 5, 3, torch::kDouble);
  const torch::Tensor x = nets[0].inputs(7), y = nets[0].targets(7);
  const torch::Tensor expected = Chain(nets[0]).net->forward(x).detach();
  ThreadWorld(3).run([&](ProcessGroup group) {
    DistributedPipeline pipe(
        blocks_of(nets[size_t(group.rank())].net),
        group,
        &squares,
        {.micro_batches = 4, .first_block = {0, 2, 4}, .gathers_timeline = true});
    const Tensors outputs = pipe.forward({x});
    ASSERT_EQ(outputs.size(), pipe.has_last_stage() ? 1u : 0u);
    if (pipe.has_last_stage()) {
      EXPECT_LE(difference({outputs[0]}, {expected}), 1e-12);
    }
    for (const torch::Tensor& parameter : pipe.parameters())
      EXPECT_FALSE(parameter.grad().defined());
    const PipelineStep step = step_of(pipe, x, y);
    ASSERT_EQ(step.timeline.ranks.size(), 3u);
    for (const auto& spans : step.timeline.ranks) EXPECT_GE(spans.size(), 9u);
  });
}

TEST(DistributedPipeline, GradientsAreClippedByTheNormOfAllRanks) {
  const auto nets = chains(3, 5, 3, torch::kDouble);
  const torch::Tensor x = nets[0].inputs(7), y = nets[0].targets(7);
  Chain alone(5, 3);
  squares({alone.net->forward(x)}, {y}).backward();
  const double norm = torch::nn::utils::clip_grad_norm_(alone.net->parameters(), 0.01);
  ThreadWorld(3).run([&](ProcessGroup group) {
    const Chain& mine = nets[size_t(group.rank())];
    DistributedPipeline pipe(
        blocks_of(mine.net), group, &squares, {.micro_batches = 2, .first_block = {0, 1, 4}});
    step_of(pipe, x, y);
    EXPECT_NEAR(pipe.clip_grad_norm(0.01), norm, 1e-12 * norm);
    expect_own_gradients(pipe, mine, gradients_of(alone.net->parameters()), 1e-12);
    EXPECT_NEAR(pipe.clip_grad_norm(1.0), 0.01, 1e-6);
    expect_own_gradients(pipe, mine, gradients_of(alone.net->parameters()), 1e-12);
    EXPECT_THAT(test::error_of([&] { pipe.clip_grad_norm(-1); }), HasSubstr("0 or more"));
  });
}

TEST(DistributedPipeline, ABadBatchOfOneRankIsRefusedOnAllAndTheNextIsTaken) {
  const auto nets = chains(2, 4, 3, torch::kDouble);
  const torch::Tensor x = nets[0].inputs(6), y = nets[0].targets(6);
  Chain alone = nets[0];
  const auto expected = gradients_on_one_device(alone, x, y);
  ThreadWorld(2).run([&](ProcessGroup group) {
    const Chain& mine = nets[size_t(group.rank())];
    DistributedPipeline pipe(
        blocks_of(mine.net), group, &squares, {.micro_batches = 3, .first_block = {0, 2}});
    const std::string empty = test::error_of([&] { step_of(pipe, x.narrow(0, 0, 0), y); });
    EXPECT_THAT(empty, HasSubstr("batch"));
    if (group.rank() == 1) {
      EXPECT_THAT(empty, AllOf(HasSubstr("the step was not begun"), HasSubstr("rank 0 failed")));
    }
    EXPECT_THAT(test::error_of([&] { step_of(pipe, x, y.narrow(0, 0, 4)); }),
                AllOf(HasSubstr("rows"), HasSubstr("6, and 4 on rank 1")));
    EXPECT_THAT(test::error_of([&] { pipe.step({x}, {y}, group.rank() == 0 ? 1.0 : 2.0); }),
                HasSubstr("scale"));
    step_of(pipe, x, y);
    expect_own_gradients(pipe, mine, expected, 1e-12);
  });
}

TEST(DistributedPipeline, RanksThatDoNotMakeTheSameModelAreToldWhatDiffers) {
  const auto nets = chains(2, 4, 3, torch::kDouble);
  const auto error_with = [&](const std::vector<DistributedPipelineOptions>& options,
                              const std::vector<std::vector<Block>>& blocks) {
    std::vector<std::string> errors(2);
    ThreadWorld(2).run([&](ProcessGroup group) {
      const auto rank = size_t(group.rank());
      errors[rank] = test::error_of(
          [&] { DistributedPipeline(blocks[rank], group, &squares, options[rank]); });
    });
    EXPECT_NE(errors[0], test::kNoError);
    EXPECT_NE(errors[1], test::kNoError);
    return errors[0] + "\n" + errors[1];
  };
  const std::vector<std::vector<Block>> same{blocks_of(nets[0].net), blocks_of(nets[1].net)};
  EXPECT_THAT(error_with({{.first_block = {0, 1}}, {.first_block = {0, 2}}}, same),
              AllOf(HasSubstr("first blocks [0, 1]"), HasSubstr("first blocks [0, 2]")));
  EXPECT_THAT(error_with({{.micro_batches = 2, .first_block = {0, 1}},
                          {.micro_batches = 3, .first_block = {0, 1}}},
                         same),
              HasSubstr("micro-batches 2; rank 1 has micro-batches 3"));
  EXPECT_THAT(error_with({{.first_block = {0, 1}}, {.first_block = {1, 2}}}, same),
              AllOf(HasSubstr("rank 1 failed: first blocks of stages"), HasSubstr("begin with 0")));
  const Chain other(4, 99);
  EXPECT_THAT(error_with({{.first_block = {0, 1}}, {.first_block = {0, 1}}},
                         {blocks_of(nets[0].net), blocks_of(other.net)}),
              HasSubstr("the ranks' modules differ"));
}

}  // namespace
}  // namespace muster
