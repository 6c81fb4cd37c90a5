// Loops as users write them, with the calls of the optimizer and of the module, and ZeRO below.
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/parallel/sharded/zero.h"
#include "muster/testing/run_ranks.h"

#include "tests/parallel/graphs.h"
#include "tests/parallel/sharded/zero_nets.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using muster::testing::rank_errors;
using muster::testing::run_ranks;
using parallel::ShardedDataParallel;
using test::copies;
using test::difference;
using test::Graph;
using test::state_of;
using ::testing::Each;
using ::testing::HasSubstr;
using torch::Tensor;

constexpr int kSteps = 4;

torch::optim::SGD loop_sgd(const std::vector<Tensor>& tensors) {
  return torch::optim::SGD(tensors, torch::optim::SGDOptions(0.1).momentum(0.9));
}

Tensor loop_rows(int step, int rank, int world) {
  return test::draw({12, 6}, 40 + static_cast<uint64_t>(step))
      .narrow(0, rank * 12 / world, 12 / world)
      .to(torch::kDouble);
}

/// Where in a step gradients are dropped.
enum class When { kBeforeForward, kBeforeBackward, kAfterStep, kNever };

struct Loop {
  std::function<void()> zero_grad;
  std::function<Tensor(int step)> loss;
  std::function<void()> step;
};

void run_loop(const Loop& loop, When when) {
  for (int step = 0; step < kSteps; ++step) {
    if (when == When::kBeforeForward) loop.zero_grad();
    const Tensor loss = loop.loss(step);
    if (when == When::kBeforeBackward) loop.zero_grad();
    loss.backward();
    if (step == 2) {  // a batch whose gradients are thrown away
      loop.zero_grad();
      loop.loss(100).backward();
    }
    loop.step();
    if (when == When::kAfterStep) loop.zero_grad();
  }
}

std::vector<Tensor> alone(When when) {
  const Graph net = test::three_layers(torch::kDouble);
  auto sgd = loop_sgd(net->parameters());
  run_loop({[&] { sgd.zero_grad(); },
            [&](int step) { return net->forward(loop_rows(step, 0, 1)).square().mean(); },
            [&] { sgd.step(); }},
           when);
  return copies(state_of(*net));
}

class ZeroLoops : public ::testing::TestWithParam<int> {};  // stage

TEST_P(ZeroLoops, DropGradientsWithWhateverZeroGrad) {
  for (const std::string by : {"zero", "optimizer", "module"}) {
    for (const When when :
         {When::kBeforeForward, When::kBeforeBackward, When::kAfterStep, When::kNever}) {
      SCOPED_TRACE(by + " " + std::to_string(static_cast<int>(when)));
      for (const int64_t bucket_bytes : {300, 1 << 20}) {
        std::vector<Graph> nets;
        for (int rank = 0; rank < 3; ++rank) nets.push_back(test::three_layers(torch::kDouble));
        run_ranks(3, [&](ProcessGroup group) {
          const Graph net = nets[static_cast<size_t>(group.rank())];
          ShardedDataParallel zero(net, group, {.stage = GetParam(), .bucket_bytes = bucket_bytes});
          auto sgd = loop_sgd(zero.shard());
          run_loop({[&] {
                      if (by == "zero") zero.zero_grad();
                      if (by == "optimizer") sgd.zero_grad();
                      if (by == "module") net->zero_grad();
                    },
                    [&](int step) {
                      return zero->forward(loop_rows(step, group.rank(), 3)).square().mean();
                    },
                    [&] { zero.step(sgd); }},
                   when);
        });
        EXPECT_LE(difference(copies(state_of(*nets[2])), alone(when)), 1e-12);
      }
    }
  }
}

// Two numbers on four ranks: two of them update nothing, and have old gradients as all others.
TEST_P(ZeroLoops, DropGradientsOnRanksThatUpdateNothing) {
  std::vector<torch::nn::Linear> nets;
  for (int rank = 0; rank < 4; ++rank) {
    torch::manual_seed(3);
    nets.emplace_back(1, 1);
  }
  const std::vector<Tensor> before = copies(nets[0]->parameters());
  run_ranks(4, [&](ProcessGroup group) {
    torch::nn::Linear net = nets[static_cast<size_t>(group.rank())];
    ShardedDataParallel zero(net, group, {.stage = GetParam()});
    torch::optim::SGD sgd(zero.shard(), 0.125);
    for (int step = 0; step < 3; ++step) {
      sgd.zero_grad();
      zero->forward(torch::ones({2, 1})).mean().backward();
      zero.step(sgd);
    }
  });
  for (const torch::nn::Linear& net : nets) {
    for (size_t i = 0; i < before.size(); ++i)  // each gradient is 1
      EXPECT_NEAR((before[i] - net->parameters()[i]).item<double>(), 3 * 0.125, 1e-6);
  }
}

TEST_P(ZeroLoops, ThatStepTheOptimizerByItselfAreRefusedAtOnce) {
  const auto refused = [&](const auto& make) {
    const auto errors = rank_errors(2, [&](ProcessGroup group) {
      Graph net = test::three_layers(torch::kDouble);
      ShardedDataParallel zero(net, group, {.stage = GetParam()});
      auto optimizer = make(zero.shard());
      optimizer.zero_grad();
      zero->forward(loop_rows(0, group.rank(), 2)).square().mean().backward();
      zero.step(optimizer);
      zero->forward(loop_rows(1, group.rank(), 2)).square().mean().backward();
      optimizer.step();
    });
    EXPECT_THAT(errors, Each(HasSubstr("write zero.step(optimizer) for optimizer.step()")));
  };
  refused([](const std::vector<Tensor>& shard) { return torch::optim::SGD(shard, 0.1); });
  refused([](const std::vector<Tensor>& shard) { return torch::optim::Adam(shard, 0.1); });
  refused([](const std::vector<Tensor>& shard) { return torch::optim::AdamW(shard, 0.1); });
}

TEST_P(ZeroLoops, ThatDropAPartOfTheGradientsAreRefused) {
  const auto errors = rank_errors(2, [&](ProcessGroup group) {
    Graph net = test::three_layers(torch::kDouble);
    ShardedDataParallel zero(net, group, {.stage = GetParam(), .bucket_bytes = 300});
    torch::optim::SGD part({zero.shard()[0]}, 0.1);
    zero->forward(loop_rows(0, group.rank(), 2)).square().mean().backward();
    part.zero_grad();
    zero->forward(loop_rows(1, group.rank(), 2)).square().mean().backward();
  });
  EXPECT_THAT(errors[0], HasSubstr("write zero.zero_grad()"));  // rank 1 may have that piece alone
}

TEST(ZeroLoop, ThatStepsTheParametersInStage2IsRefused) {
  const auto errors = rank_errors(2, [&](ProcessGroup group) {
    Graph net = test::three_layers(torch::kDouble);
    ShardedDataParallel zero(net, group, {.stage = 2});
    torch::optim::SGD sgd(net->parameters(), 0.1);
    zero->forward(loop_rows(0, group.rank(), 2)).square().mean().backward();
    sgd.step();
  });
  EXPECT_THAT(errors, Each(HasSubstr("gradients are in shards, and parameters have none")));
}

INSTANTIATE_TEST_SUITE_P(Stages, ZeroLoops, ::testing::Values(1, 2));

}  // namespace
}  // namespace muster
