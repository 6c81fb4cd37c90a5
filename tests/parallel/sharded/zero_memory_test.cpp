// Bytes per parameter on each rank, counted in LibTorch's allocator, against the formulas of Note
// [ZeRO].
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/text.h"
#include "muster/parallel/sharded/zero.h"
#include "muster/testing/run_ranks.h"

#include "tests/parallel/sharded/unit_net.h"
#include "tests/parallel/sharded/zero_nets.h"
#include "tests/support/counting_allocator.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using muster::testing::run_ranks;
using parallel::DistributedDataParallel;
using parallel::ShardedDataParallel;

constexpr int64_t kWidth = 384, kLayers = 6;
constexpr int64_t kParameters = kLayers * kWidth * (kWidth + 1);

torch::nn::Sequential make_net(torch::Dtype dtype) {
  torch::nn::Sequential net;
  for (int64_t i = 0; i < kLayers; ++i) net->push_back(torch::nn::Linear(kWidth, kWidth));
  net->to(dtype);
  return net;
}

struct Bytes {
  double held;  ///< per parameter and rank, when backward is over: nothing but the training state
  double peak;  ///< per parameter and rank, in forward, backward and step
};

/// `train(group, net, step_done)` makes steps and calls `step_done()` after each but the last, and
/// before the gradients of the last are dropped.
template <class Train>
Bytes measure(int world, torch::Dtype dtype, const Train& train) {
  const test::WithoutOneDnn plain;
  test::MemoryCount memory;
  std::vector<torch::nn::Sequential> nets;
  for (int rank = 0; rank < world; ++rank) nets.push_back(make_net(dtype));
  double held = 0;
  run_ranks(world, [&](ProcessGroup group) {
    int steps = 0;
    train(group, nets[group.rank()], [&] {
      group.barrier();
      ++steps;
      if (group.rank() == 0 && steps == 3) memory.start_peak();
      if (group.rank() == 0 && steps == 4) held = static_cast<double>(memory.live());
      group.barrier();
    });
  });
  const double all = static_cast<double>(kParameters * world);
  return {held / all, static_cast<double>(memory.peak()) / all};
}

torch::Tensor pass(const torch::Tensor& scores) { return scores.to(torch::kFloat).pow(2).mean(); }

Bytes of_ddp(int world) {
  return measure(world, torch::kFloat, [](ProcessGroup group, auto net, const auto& step_done) {
    DistributedDataParallel ddp(net, group, {.gradient_as_bucket_view = true});
    torch::optim::Adam adam(net->parameters(), 1e-3);
    for (int step = 0; step < 4; ++step) {
      ddp.zero_grad();
      pass(ddp->forward(torch::ones({1, kWidth}))).backward();
      adam.step();
      step_done();
    }
  });
}

/// Layer by layer, each a unit.
torch::Tensor run(torch::nn::Sequential& net, torch::Tensor x) {
  for (size_t i = 0; i < net->size(); ++i) {
    auto layer = net->ptr<torch::nn::LinearImpl>(i);
    x = tensor::call_unit(std::to_string(i), layer, x);
  }
  return x;
}

parallel::ZeroOptions zero_options(int stage) {
  parallel::ZeroOptions options{.stage = stage, .bucket_bytes = 300'000};
  for (int64_t i = 0; stage == 3 && i < kLayers; ++i) options.units.push_back({std::to_string(i)});
  return options;
}

/// With `peak_from` 1 the peak is that of all steps.
/// The first `frozen` layers are not trained.
Bytes of_zero(int stage, int world, torch::Dtype dtype, int peak_from = 3, size_t frozen = 0) {
  const auto train = [&](ProcessGroup group, auto net, const auto& step_done) {
    for (size_t i = 0; i < frozen; ++i) {
      for (auto& parameter : net[i]->parameters()) parameter.set_requires_grad(false);
    }
    ShardedDataParallel zero(net, group, zero_options(stage));
    torch::optim::Adam adam(zero.shard(), 1e-3);
    if (peak_from == 1) step_done();
    for (int step = 0; step < 4; ++step) {
      zero.zero_grad();
      const torch::Tensor scores = zero.run_forward([&] {
        return run(net, torch::ones({1, kWidth}).to(dtype));
      });
      pass(scores).backward();
      zero.step(adam);
      step_done();
    }
  };
  return measure(world, dtype, train);
}

constexpr double kTolerance = 0.002;  // padding

TEST(ZeroMemory, OfDdpIsSixteenBytesPerParameterOnAnyNumberOfRanks) {
  for (const int world : {1, 2, 4}) EXPECT_NEAR(of_ddp(world).held, 16, 16 * kTolerance);
}

class ZeroMemoryOf : public ::testing::TestWithParam<int> {
 protected:
  void expect(const char* what, const Bytes& bytes, double formula) {
    RecordProperty(what, concat(bytes.held, " held, ", bytes.peak, " at the peak"));
    std::printf("%-28s N=%d: %6.3f bytes per parameter held (formula %6.3f), peak %6.3f\n",
                what,
                GetParam(),
                bytes.held,
                formula,
                bytes.peak);
    EXPECT_NEAR(bytes.held, formula, formula * kTolerance) << what;
  }
};

TEST_P(ZeroMemoryOf, IsAsTheFormulasSay) {
  const double n = GetParam();
  expect("stage 1, float32", of_zero(1, GetParam(), torch::kFloat), 8 + 8 / n);
  expect("stage 2, float32", of_zero(2, GetParam(), torch::kFloat), 4 + 12 / n);
  expect("stage 1, bfloat16 and masters", of_zero(1, GetParam(), torch::kBFloat16), 4 + 12 / n);
  expect("stage 2, bfloat16 and masters", of_zero(2, GetParam(), torch::kBFloat16), 2 + 14 / n);
  // On one rank weights are never released, and with masters a float32 copy is beside them.
  expect("stage 3, float32", of_zero(3, GetParam(), torch::kFloat), 16 / n);
  expect("stage 3, bfloat16 and masters", of_zero(3, GetParam(), torch::kBFloat16), 16 / n);
}

INSTANTIATE_TEST_SUITE_P(Ranks, ZeroMemoryOf, ::testing::Values(1, 2, 4));

// 4/N of what is frozen, as long as nothing of it is needed; 16/N of the rest.
TEST_P(ZeroMemoryOf, FrozenLayersIsThatOfTheirWeightsInShards) {
  const double n = GetParam();
  expect("stage 3, 5 of 6 frozen",
         of_zero(3, GetParam(), torch::kFloat, 3, 5),
         (5.0 * 4 + 16) / 6 / n);
}

// Backward of stage 2 holds the shard, two buckets on their way with their sums, and the one that
// is being filled; never all gradients.
TEST(ZeroMemory, OfAStepOfStageTwoIsBoundedByTheBuckets) {
  const int world = 4;
  const Bytes bytes = of_zero(2, world, torch::kFloat);
  const double bucket = 4.0 * kWidth * kWidth / kParameters;  // bytes of one layer, per parameter
  // Adam's temporaries are of the size of a shard: the square roots and what they divide.
  EXPECT_LE(bytes.peak, bytes.held + 4 * bucket + 2 * 4.0 / world);
}

// Beside the shards a step of stage 3 holds the weights of two units, and what stage 2 has of
// gradients: those of one unit, and two on their way with their sums.
TEST(ZeroMemory, OfAStepOfStageThreeIsBoundedByTheUnits) {
  const int world = 4;
  const Bytes bytes = of_zero(3, world, torch::kFloat);
  const double unit = 4.0 * kWidth * kWidth / kParameters;  // bytes of one layer, per parameter
  const double gathered = 2 * unit, gradients = 4 * unit;
  EXPECT_LE(bytes.peak, bytes.held + std::max(gathered + gradients, 2 * 4.0 / world));
}

/// Layers that are registered in the order in which they run, or in the opposite one.
struct OrderedNetImpl : torch::nn::Module {
  explicit OrderedNetImpl(bool opposite) {
    for (int64_t i = 0; i < kLayers; ++i) layers.emplace_back(kWidth, kWidth);
    for (int64_t i = 0; i < kLayers; ++i) {
      const int64_t layer = opposite ? kLayers - 1 - i : i;
      register_module(std::to_string(i), layers[static_cast<size_t>(layer)]);
    }
  }
  torch::Tensor forward(torch::Tensor x) {
    for (auto& layer : layers) x = layer->forward(x);
    return x;
  }
  std::vector<torch::nn::Linear> layers;
};
TORCH_MODULE(OrderedNet);

double backward_peak(bool opposite) {
  const int world = 4;
  test::MemoryCount memory;
  std::vector<OrderedNet> nets;
  for (int rank = 0; rank < world; ++rank) nets.emplace_back(opposite);
  run_ranks(world, [&](ProcessGroup group) {
    ShardedDataParallel zero(nets[group.rank()], group, {.stage = 2, .bucket_bytes = 300'000});
    for (int step = 0; step < 3; ++step) {
      zero.zero_grad();
      group.barrier();
      if (group.rank() == 0) memory.start_peak();
      group.barrier();
      pass(zero->forward(torch::ones({1, kWidth}))).backward();
      group.barrier();
    }
  });
  return static_cast<double>(memory.peak()) / static_cast<double>(kParameters * world);
}

// The order of launching is learnt, so that no bucket waits for one that is filled at the very end.
TEST(ZeroMemory, OfBackwardDoesNotDependOnTheOrderOfRegistration) {
  const double bucket = 4.0 * kWidth * kWidth / kParameters;
  EXPECT_LE(backward_peak(false), 4 + 4.0 / 4 + 4 * bucket);
  EXPECT_LE(backward_peak(true), 4 + 4.0 / 4 + 4 * bucket);
}

/// Bytes per rank that a backward takes at its peak, where small layers stand beside large ones.
double backward_bytes(int64_t direct_bytes, int64_t small_width) {
  const int world = 2;
  const test::WithoutOneDnn plain;
  test::MemoryCount memory;
  std::vector<torch::nn::Sequential> nets;
  for (int rank = 0; rank < world; ++rank) {
    nets.push_back(make_net(torch::kFloat));
    for (int i = 0; i < 4; ++i) {
      nets.back()->push_back(torch::nn::Linear(kWidth, small_width));
      nets.back()->push_back(torch::nn::Linear(small_width, kWidth));
    }
  }
  double before = 0;
  run_ranks(world, [&](ProcessGroup group) {
    DistributedDataParallel ddp(
        nets[group.rank()], group, {.gradient_as_bucket_view = true, .direct_bytes = direct_bytes});
    for (int step = 0; step < 3; ++step) {
      ddp.zero_grad();
      const torch::Tensor loss = pass(ddp->forward(torch::ones({1, kWidth})));
      group.barrier();
      if (group.rank() == 0) {
        memory.start_peak();
        before = static_cast<double>(memory.live());
      }
      group.barrier();
      loss.backward();
      group.barrier();
    }
  });
  return (static_cast<double>(memory.peak()) - before) / world;
}

// Small gradients are averaged in the buckets that they are views of: beside the large ones, which
// are made anew in every backward, there is only what one layer leaves behind.
TEST(ZeroMemory, OfDirectGradientsHasNoSecondCopyOfBuckets) {
  const double large = 4.0 * kWidth * kWidth;
  EXPECT_LE(backward_bytes(/*direct_bytes=*/500'000, /*small_width=*/200), (kLayers + 2) * large);
}

// A checkpoint: rank 0 gets whole tensors one by one, the others nothing.
TEST(ZeroMemory, OfAGatheredStateIsOneCopyOnRankZero) {
  const int world = 4;
  test::MemoryCount memory;
  double before = 0, peak = 0;
  run_ranks(world, [&](ProcessGroup group) {
    torch::nn::Sequential net = make_net(torch::kFloat);
    ShardedDataParallel zero(net, group, {.bucket_bytes = 300'000});
    const auto& shards = zero.core().parameters();
    parallel::NamedTensors state;
    for (const char* kind : {"exp_avg/", "exp_avg_sq/"}) {
      for (const auto& [name, piece] : shards.shard())
        state.emplace_back(kind + name, piece.clone());
    }
    group.barrier();
    if (group.rank() == 0) {
      memory.start_peak();
      before = static_cast<double>(memory.live());
    }
    group.barrier();
    const parallel::NamedTensors whole = shards.gather(state);
    group.barrier();
    if (group.rank() == 0) {
      peak = static_cast<double>(memory.peak());
      EXPECT_EQ(whole.size(), 2 * net->parameters().size());
    } else {
      EXPECT_TRUE(whole.empty());
    }
  });
  const double of_all_ranks = (peak - before) / kParameters;
  std::printf("gathering 8 bytes per parameter: %.3f more at the peak, all ranks together\n",
              of_all_ranks);
  EXPECT_LE(of_all_ranks, 8 + 4.0 * kWidth * kWidth / kParameters);  // and one tensor on its way
}

/// Bytes by name.
std::map<std::string, int64_t> bytes_of(const parallel::NamedTensors& tensors) {
  std::map<std::string, int64_t> bytes;
  for (const auto& [name, tensor] : tensors) bytes[name] += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

// The module's parameters have no memory between their uses, and no gradients.
TEST(ZeroMemory, WhatARankHoldsOfTheModelInShardsIsNamedByItsUnits) {
  const std::vector<test::UnitNet> nets{test::UnitNet(3), test::UnitNet(3)};
  run_ranks(2, [&](ProcessGroup group) {
    const test::UnitNet net = nets[static_cast<size_t>(group.rank())];
    ShardedDataParallel zero(net, group, {.stage = 3, .units = net->units()});
    const parallel::ShardedParameters& parameters = zero.core().parameters();
    std::map<std::string, int64_t> chunks;
    for (size_t b = 0; b < parameters.buckets(); ++b) {
      const std::string unit = zero.core().units()->name(parameters.unit(b));
      chunks[unit.empty() ? "first" : unit] += 8 * parameters.layout(b).chunk;  // float64
    }
    EXPECT_THAT(chunks, ::testing::SizeIs(4));
    EXPECT_EQ(bytes_of(zero.core().held_weights()), chunks);
    EXPECT_TRUE(zero.core().held_gradients().empty());
    zero->forward(test::rows_of(group.rank(), 2)).square().mean().backward();
    EXPECT_EQ(bytes_of(zero.core().held_weights()), chunks);
    EXPECT_EQ(bytes_of(zero.core().held_gradients()), chunks);
  });
}

}  // namespace
}  // namespace muster
