// ZeRO has what DistributedDataParallel has: the module's calls, pauses, weights of uneven shares,
// groups by name, hooks.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/parallel/sharded/zero.h"
#include "muster/testing/run_ranks.h"

#include "tests/parallel/graphs.h"
#include "tests/parallel/sharded/zero_nets.h"
#include "tests/support/distance.h"
#include "tests/support/error_of.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using muster::testing::run_ranks;
using parallel::DistributedDataParallel;
using parallel::ShardedDataParallel;
using test::bit_equal;
using test::copies;
using test::difference;
using test::error_of;
using test::Graph;
using test::RandomNet;
using test::state_of;
using test::three_layers;
using ::testing::HasSubstr;
using torch::Tensor;

constexpr int kSurfaceSteps = 3;

torch::optim::SGD surface_sgd(const std::vector<Tensor>& tensors) {
  return torch::optim::SGD(tensors, torch::optim::SGDOptions(0.1).momentum(0.9));
}

Tensor surface_rows(int step, int64_t from, int64_t count) {
  return test::draw({12, 6}, 70 + static_cast<uint64_t>(step)).narrow(0, from, count);
}

/// One rank's training on whole batches of 12.
std::vector<Tensor> surface_alone() {
  const Graph net = three_layers(torch::kDouble);
  auto sgd = surface_sgd(net->parameters());
  for (int step = 0; step < kSurfaceSteps; ++step) {
    sgd.zero_grad();
    net->forward(surface_rows(step, 0, 12)).square().mean().backward();
    sgd.step();
  }
  return copies(state_of(*net));
}

std::vector<Graph> surface_nets(int count) {
  std::vector<Graph> nets;
  for (int rank = 0; rank < count; ++rank) nets.push_back(three_layers(torch::kDouble));
  return nets;
}

class ZeroSurface : public ::testing::TestWithParam<int> {};  // stage
INSTANTIATE_TEST_SUITE_P(Stage, ZeroSurface, ::testing::Values(1, 2));

TEST_P(ZeroSurface, HasTheModulesCalls) {
  const auto nets = surface_nets(2);
  run_ranks(2, [&](ProcessGroup group) {
    const Graph net = nets[static_cast<size_t>(group.rank())];
    ShardedDataParallel zero(net, group, {.stage = GetParam()});
    EXPECT_TRUE(zero.is_training());
    zero.eval();
    EXPECT_FALSE(net->is_training());
    zero.train();
    EXPECT_TRUE(zero.is_training());
    EXPECT_EQ(zero.parameters().size(), net->parameters().size());
    EXPECT_EQ(zero.named_parameters().keys(), net->named_parameters().keys());
    EXPECT_TRUE(zero.buffers().empty());
    EXPECT_EQ(zero.group().world_size(), 2);
  });
}

TEST(ZeroSurfaceAlone, OfStage3HasTheModulesCalls) {
  std::vector<RandomNet> nets;
  for (int rank = 0; rank < 2; ++rank) nets.emplace_back(3);
  run_ranks(2, [&](ProcessGroup group) {
    RandomNet net = nets[static_cast<size_t>(group.rank())];
    ShardedDataParallel zero(net, group, {.stage = 3, .units = net->units()});
    zero.eval();
    EXPECT_FALSE(net->is_training());
    EXPECT_EQ(zero.parameters().size(), net->parameters().size());
    const auto pause = zero.no_sync();
    EXPECT_TRUE(zero.state().empty());
  });
}

TEST_P(ZeroSurface, AccumulatesByMicroBatchesAsOneRankOnTheWholeBatch) {
  const auto nets = surface_nets(2);
  run_ranks(2, [&](ProcessGroup group) {
    const Graph net = nets[static_cast<size_t>(group.rank())];
    ShardedDataParallel zero(net, group, {.stage = GetParam()});
    auto sgd = surface_sgd(zero.shard());
    for (int step = 0; step < kSurfaceSteps; ++step) {
      sgd.zero_grad();
      for (int64_t micro = 0; micro < 3; ++micro) {
        const auto scope = zero.accumulate(micro, 3);
        const Tensor x = surface_rows(step, 6 * group.rank() + 2 * micro, 2);
        (zero->forward(x).square().mean() / 3).backward();
      }
      zero.step(sgd);
    }
  });
  EXPECT_LE(difference(copies(state_of(*nets[1])), surface_alone()), 1e-12);
}

TEST_P(ZeroSurface, AveragesBehindBackwardsThatWereAllPaused) {
  const auto nets = surface_nets(2);
  run_ranks(2, [&](ProcessGroup group) {
    const Graph net = nets[static_cast<size_t>(group.rank())];
    ShardedDataParallel zero(net, group, {.stage = GetParam()});
    auto sgd = surface_sgd(zero.shard());
    for (int step = 0; step < kSurfaceSteps; ++step) {
      sgd.zero_grad();
      {
        const auto pause = zero.no_sync();
        for (int64_t micro = 0; micro < 2; ++micro) {
          const Tensor x = surface_rows(step, 6 * group.rank() + 3 * micro, 3);
          (zero->forward(x).square().mean() / 2).backward();
        }
      }
      zero.average_gradients();
      zero.step(sgd);
    }
  });
  EXPECT_LE(difference(copies(state_of(*nets[0])), surface_alone()), 1e-12);
}

TEST_P(ZeroSurface, WeighsUnevenShares) {
  const auto nets = surface_nets(3);
  const std::vector<int64_t> from = {0, 7, 7}, count = {7, 0, 5};
  run_ranks(3, [&](ProcessGroup group) {
    const auto rank = static_cast<size_t>(group.rank());
    ShardedDataParallel zero(nets[rank], group, {.stage = GetParam()});
    auto sgd = surface_sgd(zero.shard());
    for (int step = 0; step < kSurfaceSteps; ++step) {
      sgd.zero_grad();
      const bool has = count[rank] > 0;
      const Tensor x = surface_rows(step, has ? from[rank] : 0, has ? count[rank] : 1);
      const Tensor loss = zero->forward(x).square().mean();
      const bool known = step == 1;
      (known ? zero.weigh(loss, count[rank], 12) : zero.weigh(loss, count[rank])).backward();
      zero.step(sgd);
    }
  });
  EXPECT_LE(difference(copies(state_of(*nets[2])), surface_alone()), 1e-12);
}

using Groups = std::vector<torch::optim::OptimizerParamGroup>;

torch::optim::SGD by_groups(std::vector<Tensor> biases, std::vector<Tensor> weights) {
  auto of_weights = std::make_unique<torch::optim::SGDOptions>(0.1);
  of_weights->momentum(0.9).weight_decay(0.05);
  auto of_biases = std::make_unique<torch::optim::SGDOptions>(0.02);
  of_biases->momentum(0.9);
  Groups groups;
  groups.emplace_back(std::move(weights), std::move(of_weights));
  groups.emplace_back(std::move(biases), std::move(of_biases));
  return torch::optim::SGD(groups, torch::optim::SGDOptions(0.1));
}

bool is_bias(const std::string& name) { return name.ends_with("bias"); }

// With more ranks than some groups have elements: ranks without a piece of a group, or of any.
TEST_P(ZeroSurface, TakesGroupsOfParametersByName) {
  const Graph whole = three_layers(torch::kDouble);
  std::vector<Tensor> biases, weights;
  for (const auto& item : whole->named_parameters())
    (is_bias(item.key()) ? biases : weights).push_back(item.value());
  auto alone = by_groups(biases, weights);
  for (int step = 0; step < kSurfaceSteps; ++step) {
    alone.zero_grad();
    whole->forward(surface_rows(step, 0, 12)).square().mean().backward();
    alone.step();
  }
  for (const int world : {2, 6}) {
    const auto nets = surface_nets(world);
    run_ranks(world, [&](ProcessGroup group) {
      const Graph net = nets[static_cast<size_t>(group.rank())];
      ShardedDataParallel zero(net, group, {.stage = GetParam(), .bucket_bytes = 200});
      auto sgd = by_groups(zero.shard(is_bias),
                           zero.shard([](const std::string& name) { return !is_bias(name); }));
      const int64_t share = 12 / world;
      for (int step = 0; step < kSurfaceSteps; ++step) {
        sgd.zero_grad();
        zero->forward(surface_rows(step, group.rank() * share, share)).square().mean().backward();
        zero.step(sgd);
      }
    });
    EXPECT_LE(difference(copies(state_of(*nets[1])), copies(state_of(*whole))), 1e-12) << world;
  }
}

TEST_P(ZeroSurface, DropsGradientsByGroupsOnRanksThatUpdateNothing) {
  std::vector<torch::nn::Linear> nets;
  for (int rank = 0; rank < 4; ++rank) {
    torch::manual_seed(3);
    nets.emplace_back(1, 1);
  }
  const std::vector<Tensor> before = copies(nets[0]->parameters());
  run_ranks(4, [&](ProcessGroup group) {
    torch::nn::Linear net = nets[static_cast<size_t>(group.rank())];
    ShardedDataParallel zero(net, group, {.stage = GetParam()});
    Groups groups;
    groups.emplace_back(zero.shard(is_bias));
    groups.emplace_back(zero.shard([](const std::string& name) { return !is_bias(name); }));
    torch::optim::SGD sgd(groups, torch::optim::SGDOptions(0.125));
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

TEST_P(ZeroSurface, RefusesAGroupThatNoParameterIsIn) {
  const auto nets = surface_nets(2);
  run_ranks(2, [&](ProcessGroup group) {
    ShardedDataParallel zero(nets[static_cast<size_t>(group.rank())], group, {.stage = GetParam()});
    const auto none = [](const std::string& name) { return name == "wieght"; };
    EXPECT_THAT(error_of([&] { zero.shard(none); }), HasSubstr("layer0"));
  });
}

TEST(ZeroSurfaceAlone, OfStage1SendsGradientsByTheHookAsDdp) {
  const auto of_ddp = surface_nets(2), of_zero = surface_nets(2);
  const auto train = [](auto& wrapped, auto& sgd, ProcessGroup group, auto step) {
    for (int i = 0; i < kSurfaceSteps; ++i) {
      wrapped.zero_grad();
      wrapped->forward(surface_rows(i, 6 * group.rank(), 6)).square().mean().backward();
      step(sgd);
    }
  };
  run_ranks(2, [&](ProcessGroup group) {
    const Graph net = of_ddp[static_cast<size_t>(group.rank())];
    DistributedDataParallel ddp(net, group, {.comm_hook = "fp16"});
    auto sgd = surface_sgd(net->parameters());
    train(ddp, sgd, group, [](auto& optimizer) { optimizer.step(); });
  });
  run_ranks(2, [&](ProcessGroup group) {
    ShardedDataParallel zero(of_zero[static_cast<size_t>(group.rank())], group, {.stage = 1});
    zero.register_comm_hook(parallel::make_comm_hook("fp16", group));
    auto sgd = surface_sgd(zero.shard());
    train(zero, sgd, group, [&](auto& optimizer) { zero.step(optimizer); });
    EXPECT_FALSE(zero.state().empty());
  });
  EXPECT_TRUE(bit_equal(copies(state_of(*of_ddp[0])), copies(state_of(*of_zero[0]))));
  EXPECT_GT(difference(copies(state_of(*of_ddp[0])), surface_alone()), 1e-9);  // halves travelled
}

TEST(ZeroSurfaceAlone, OfStage2RefusesStatesOfOthers) {
  const auto nets = surface_nets(2);
  run_ranks(2, [&](ProcessGroup group) {
    ShardedDataParallel zero(nets[static_cast<size_t>(group.rank())], group, {.stage = 2});
    EXPECT_THAT(error_of([&] {
                  zero.load_state({{"bucket_bytes_cap", torch::ones({})}});
                }),
                HasSubstr("bucket_bytes_cap"));
    zero.load_state({});
  });
}

}  // namespace
}  // namespace muster
