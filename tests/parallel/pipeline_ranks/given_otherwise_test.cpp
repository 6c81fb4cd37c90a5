// Pipelines that are given what others are not: one tensor twice, inputs to write to, a group that
// had another pipeline, other words on other ranks.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/distributed/device_mesh.h"
#include "muster/parallel/pipeline_ranks/distributed_pipeline.h"

#include "tests/parallel/pipeline/nets.h"
#include "tests/parallel/pipeline_ranks/ranks.h"
#include "tests/support/distance.h"
#include "tests/support/error_of.h"

namespace muster {
namespace {

using distributed::DeviceMesh;
using distributed::ProcessGroup;
using distributed::ThreadWorld;
using parallel::Block;
using parallel::blocks_of;
using parallel::DistributedPipeline;
using parallel::Tensors;
using test::Chain;
using test::chains;
using test::difference;
using test::expect_own_gradients;
using test::gradients_of;
using test::gradients_on_one_device;
using test::squares;
using test::step_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// What one block hands on twice is one tensor behind the cut, too: the next one writes to it.
std::vector<Block> skip_blocks(torch::nn::Sequential net) {
  const auto linear = [net](size_t i) {
    return std::static_pointer_cast<torch::nn::LinearImpl>(net->ptr(i));
  };
  return {{.name = "a",
           .modules = {linear(0)},
           .forward = [first = linear(0)](const Tensors& in) -> Tensors {
             const torch::Tensor h = first->forward(in[0]);
             return {h, h};
           }},
          {.name = "b",
           .modules = {linear(1)},
           .forward = [second = linear(1)](const Tensors& in) -> Tensors {
             torch::Tensor(in[0]).relu_();
             return {second->forward(in[0]) + in[1]};
           }}};
}

TEST(PipelineOfRanksTakes, ATensorThatIsHandedOnTwiceIsOneBehindTheCut) {
  const auto make = [] {
    torch::manual_seed(3);
    torch::nn::Sequential net(torch::nn::Linear(4, 4), torch::nn::Linear(4, 4));
    net->to(torch::kDouble);
    return net;
  };
  torch::nn::Sequential alone = make(), threads = make();
  const std::vector<torch::nn::Sequential> nets{make(), make()};
  const torch::Tensor x = torch::randn({6, 4}, torch::kDouble);
  const torch::Tensor y = torch::randn({6, 4}, torch::kDouble);
  Tensors out{x};
  for (const Block& block : skip_blocks(alone)) out = block.forward(out);
  squares(out, {y}).backward();
  const auto expected = gradients_of(alone->parameters());
  for (const char* schedule : {"1f1b", "zb1p"}) {
    parallel::Pipeline pipe(skip_blocks(threads),
                            test::ranks_on_cpu(2),
                            &squares,
                            {.schedule = schedule, .micro_batches = 3});
    pipe.zero_grad();
    pipe.step({x}, {y});
    EXPECT_LE(difference(gradients_of(threads->parameters()), expected), 1e-12) << schedule;
    ThreadWorld(2).run([&](ProcessGroup group) {
      const auto rank = size_t(group.rank());
      DistributedPipeline ranks(
          skip_blocks(nets[rank]), group, &squares, {.schedule = schedule, .micro_batches = 3});
      ranks.zero_grad();
      ranks.step({x}, {y});
      const auto mine = nets[rank]->ptr(rank)->parameters();
      const Tensors theirs(expected.begin() + 2 * int64_t(rank),
                           expected.begin() + 2 * int64_t(rank) + 2);
      EXPECT_LE(difference(gradients_of(mine), theirs), 1e-12) << schedule;
    });
  }
}

TEST(PipelineOfRanksTakes, BlocksMayWriteToTheirInputs) {
  torch::nn::Sequential net(torch::nn::ReLU(torch::nn::ReLUOptions(true)), torch::nn::Linear(3, 3));
  const torch::Tensor x = torch::randn({6, 3}), y = torch::randn({6, 3});
  squares({net->forward(x.clone())}, {y}).backward();
  const auto expected = gradients_of(net->parameters());
  parallel::Pipeline pipe(
      blocks_of(net), test::ranks_on_cpu(1), &squares, {.micro_batches = 3, .first_block = {0}});
  pipe.zero_grad();
  pipe.step({x.clone()}, {y});
  EXPECT_LE(difference(gradients_of(net->parameters()), expected), 1e-6);
}

TEST(PipelineOfRanksTakes, LettersOfAnEarlierPipelineOfTheGroupAreNotRead) {
  const auto nets = chains(2, 4, 3, torch::kDouble);
  Chain alone = nets[0];
  const torch::Tensor x = alone.inputs(6), y = alone.targets(6), other = alone.inputs(6);
  const auto expected = gradients_on_one_device(alone, x, y);
  ThreadWorld(2, std::chrono::minutes(1), "shm").run([&](ProcessGroup group) {
    const Chain& mine = nets[size_t(group.rank())];
    std::atomic<bool> slow = false;
    std::chrono::milliseconds pause(200);
    auto blocks = blocks_of(mine.net);
    blocks[2].forward = [inner = blocks[2].forward, &slow, &pause](const Tensors& in) {
      if (slow.exchange(false)) std::this_thread::sleep_for(pause);
      return inner(in);
    };
    // Rank 0 does not wait for its gradients, unless it comes so late that they are there.
    torch::Tensor failed = torch::zeros({1});
    for (; failed.item<float>() < 2 && pause < std::chrono::minutes(1); pause *= 2) {
      slow = group.rank() == 1;
      DistributedPipeline pipe(
          blocks,
          group,
          &squares,
          {.micro_batches = 3, .first_block = {0, 2}, .timeout = std::chrono::milliseconds(20)});
      const std::string error = test::error_of([&] { step_of(pipe, other, y); });
      failed.fill_(error != test::kNoError ? 1 : 0);
      group.all_reduce(failed);
    }
    EXPECT_EQ(failed.item<float>(), 2);
    DistributedPipeline pipe(blocks, group, &squares, {.micro_batches = 3, .first_block = {0, 2}});
    for (int i = 0; i < 3; ++i) {
      pipe.zero_grad();
      step_of(pipe, x, y);
      expect_own_gradients(pipe, mine, expected, 1e-12);
    }
  });
}

// So that replicas with unlike numbers of rows count by them.
TEST(PipelineOfRanksTakes, AScaleOfEachReplicasOwn) {
  const auto nets = chains(4, 4, 3, torch::kDouble);
  const torch::Tensor x = nets[0].inputs(6), y = nets[0].targets(6);
  ThreadWorld(4).run([&](const ProcessGroup& world) {
    const DeviceMesh mesh(world, {{"data", 2}, {"pipeline", 2}});
    DistributedPipeline pipe(blocks_of(nets[size_t(world.rank())].net),
                             mesh,
                             &squares,
                             {.micro_batches = 2, .first_block = {0, 2}});
    pipe.step({x}, {y});
    std::vector<torch::Tensor> alike;
    for (const torch::Tensor& parameter : pipe.parameters())
      alike.push_back(parameter.grad().clone());
    pipe.zero_grad();
    pipe.step({x}, {y}, mesh.coordinate("data") == 0 ? 1.0 : 2.0);
    for (size_t i = 0; i < alike.size(); ++i)
      EXPECT_TRUE(torch::allclose(pipe.parameters()[i].grad(), 1.5 * alike[i], 1e-12, 1e-12));
  });
}

TEST(PipelineOfRanksTakes, WhatRanksAreGivenOtherwiseIsRefusedOnAll) {
  const auto nets = chains(4, 4, 3, torch::kDouble);
  const torch::Tensor x = nets[0].inputs(6), y = nets[0].targets(6);
  ThreadWorld(4).run([&](const ProcessGroup& world) {
    const auto blocks = blocks_of(nets[size_t(world.rank())].net);
    const DeviceMesh mesh(world, {{"data", 2}, {"pipeline", 2}});
    const DeviceMesh odd(world, {{"dp", 2}, {"pipeline", 2}});
    EXPECT_THAT(test::error_of([&] {
                  DistributedPipeline(blocks, odd, &squares, {.first_block = {0, 2}});
                }),
                AllOf(HasSubstr("data_axis"), HasSubstr("got dp")));
    auto named = blocks;
    if (world.rank() == 3) named[1].name = "other";
    EXPECT_THAT(test::error_of([&] {
                  DistributedPipeline(named, mesh, &squares, {.first_block = {0, 2}});
                }),
                HasSubstr("block 1 other"));
    EXPECT_THAT(test::error_of([&] {
                  DistributedPipeline(
                      blocks,
                      mesh,
                      &squares,
                      {.first_block = {0, 2}, .timeout = std::chrono::milliseconds(-5)});
                }),
                HasSubstr("(got -5 ms)"));
    DistributedPipeline pipe(blocks, mesh, &squares, {.micro_batches = 2, .first_block = {0, 2}});
    EXPECT_THAT(
        test::error_of([&] { pipe.step({x}, pipe.has_last_stage() ? Tensors{} : Tensors{y}); }),
        AllOf(HasSubstr("targets"), HasSubstr("on rank 0")));
    EXPECT_THAT(
        test::error_of([&] { pipe.step({x}, {y}, mesh.coordinate("pipeline") == 0 ? 1.0 : 2.0); }),
        HasSubstr("the same scale"));
    for (const torch::Tensor& parameter : pipe.parameters())
      EXPECT_FALSE(parameter.grad().defined());
    EXPECT_THAT(
        test::error_of([&] { pipe.gather_model(mesh.coordinate("pipeline") == 0 ? 0 : 1); }),
        HasSubstr("root"));
    EXPECT_THAT(test::error_of([&] { pipe.gather_model(7); }), HasSubstr("(got 7)"));
    EXPECT_THAT(test::error_of([&] {
                  if (pipe.has_first_stage())
                    pipe.step({x}, {y});
                  else
                    pipe.gather_model();
                }),
                HasSubstr("not at the same step"));
    pipe.step({x}, {y});
  });
}

}  // namespace
}  // namespace muster
