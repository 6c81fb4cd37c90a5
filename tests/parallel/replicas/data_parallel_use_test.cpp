// DataParallel as its users meet it: calls, batches, modes, memory.
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/parallel/module/desync_check.h"
#include "muster/parallel/replicas/data_parallel.h"

#include "tests/parallel/replicas/line.h"
#include "tests/support/counting_allocator.h"
#include "tests/support/error_of.h"

namespace muster {
namespace {

using test::cpus;
using test::Linear;
using test::make_line;
using test::square;

using parallel::DataParallel;
using test::refusal_of;
using ::testing::HasSubstr;
TEST(DataParallelUse, MakeModuleMayTakeTheDeviceAndTheReplicasIndex) {
  std::vector<int> indices;
  DataParallel both(
      [&](at::Device device, int index) {
        EXPECT_TRUE(device.is_cpu());
        indices.push_back(index);
        return std::make_shared<torch::nn::LinearImpl>(4, 2);
      },
      {at::kCPU, at::kCPU, at::kCPU});
  EXPECT_EQ(indices, (std::vector<int>{0, 1, 2}));
  DataParallel device_only([](at::Device) { return Linear(4, 2); }, cpus(2));
  EXPECT_TRUE(torch::equal(both.module(0)->weight, both.module(2)->weight));
  EXPECT_EQ(device_only.size(), 2);
}

TEST(DataParallelUse, TheDefaultGeneratorGoesOnAsAfterOneModule) {
  const auto next_draw = [](int replicas) {
    torch::manual_seed(8);
    if (replicas == 0) {
      Linear alone(4, 2);
    } else {
      DataParallel dp([] { return Linear(4, 2); }, cpus(replicas));
    }
    return torch::rand({3});
  };
  EXPECT_TRUE(torch::equal(next_draw(0), next_draw(1)));
  EXPECT_TRUE(torch::equal(next_draw(0), next_draw(3)));
}

TEST(DataParallelUse, ABatchMayBeAnyStructureOfTensors) {
  DataParallel dp(&make_line, cpus(3));
  const torch::Tensor x = torch::randn({7, 4}), y = torch::randn({7, 2});
  std::mutex mutex;
  int64_t rows = 0;
  const auto count = [&](const torch::Tensor& tensor) {
    const std::lock_guard lock(mutex);
    rows += tensor.size(0);
  };
  dp.backward(torch::data::Example<>(x, y), [&](Linear& net, const torch::data::Example<>& batch) {
    count(batch.target);
    return torch::mse_loss(net->forward(batch.data), batch.target);
  });
  EXPECT_EQ(rows, 7);
  rows = 0;
  const std::map<std::string, std::vector<torch::Tensor>> named{{"x", {x, x}}, {"y", {y}}};
  dp.backward(named,
              2.0,
              torch::tensor(3.0),
              [&](Linear& net, const auto& batch, double a, const torch::Tensor& b) {
                EXPECT_EQ(a * b.item<float>(), 6);
                count(batch.at("y")[0]);
                return torch::mse_loss(net->forward(batch.at("x")[1]), batch.at("y")[0]);
              });
  EXPECT_EQ(rows, 7);
}

TEST(DataParallelUse, ForwardGathersAnyResultInOrder) {
  struct Heads : torch::nn::Module {
    Heads() { line = register_module("line", Linear(4, 2)); }
    std::tuple<torch::Tensor, std::vector<torch::Tensor>> forward(const torch::Tensor& x,
                                                                  double a) {
      return {line->forward(x), {x * a}};
    }
    Linear line{nullptr};
  };
  DataParallel dp([] { return std::make_shared<Heads>(); }, cpus(3));
  for (const int64_t rows : {10, 3, 2, 1, 0}) {
    const torch::Tensor x = torch::randn({rows, 4});
    const auto [scores, more] = dp.forward(x, 2.0);
    EXPECT_TRUE(torch::equal(more.at(0), 2 * x)) << rows << " rows";
    EXPECT_EQ(scores.size(0), rows);
    EXPECT_FALSE(scores.requires_grad());
  }
}

TEST(DataParallelUse, AResultWithoutARowPerRowIsRefused) {
  struct Mean : torch::nn::Module {
    Mean() { line = register_module("line", Linear(4, 2)); }
    torch::Tensor forward(const torch::Tensor& x) { return line->forward(x).mean(0); }
    Linear line{nullptr};
  };
  DataParallel dp([] { return std::make_shared<Mean>(); }, cpus(2));
  EXPECT_THAT(refusal_of([&] {
                dp.forward(torch::randn({10, 4}));
              }),
              HasSubstr("it has a row for each of the 5 given (got [2])"));
}

TEST(DataParallelUse, ThreadsLiveAsLongAsTheObjectAndTakeTheCallersModes) {
  const int before = at::get_num_threads();
  DataParallel dp(&make_line, cpus(3));
  std::mutex mutex;
  std::set<std::thread::id> threads;
  const auto look = [&](Linear& net, const torch::Tensor& x) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
    EXPECT_TRUE(at::autocast::is_autocast_enabled(at::kCPU));
    EXPECT_EQ(at::get_num_threads(), std::max(1, before / 3));
    EXPECT_EQ(net->forward(x).scalar_type(), torch::kBFloat16);
    return square(net, x);
  };
  at::autocast::set_autocast_enabled(at::kCPU, true);
  for (int step = 0; step < 4; ++step) dp.backward(torch::randn({6, 4}), look);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
  EXPECT_EQ(threads.size(), 3);
  EXPECT_EQ(threads.count(std::this_thread::get_id()), 0);
  EXPECT_EQ(at::get_num_threads(), before);
  const torch::InferenceMode inference;
  EXPECT_TRUE(dp.forward(torch::randn({6, 4})).is_inference());
}

TEST(DataParallelUse, AutocastSeesTheWeightsOfEachStep) {
  // Casts of weights are cached per step: with the first step's, the second would learn nothing.
  DataParallel dp(&make_line, cpus(2));
  auto optimizer =
      dp.optimizer([](Linear& net) { return torch::optim::SGD(net->parameters(), 0.5); });
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const torch::Tensor x = torch::ones({6, 4});
  std::vector<double> losses;
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    losses.push_back(dp.backward(x, &square).item<double>());
    optimizer.step();
  }
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
  EXPECT_NE(losses[0], losses[1]);
  EXPECT_NE(losses[1], losses[2]);
}

TEST(DataParallelUse, OptimizersStepTogetherAndMayBePointers) {
  DataParallel dp(&make_line, cpus(2));
  auto optimizer = dp.optimizer(
      [](Linear& net) { return std::make_unique<torch::optim::SGD>(net->parameters(), 0.0); });
  const torch::Tensor before = dp.module()->weight.detach().clone();
  dp.backward(torch::ones({6, 4}), &square);
  optimizer.step();
  EXPECT_TRUE(torch::equal(dp.module(1)->weight, before));
  optimizer.each([](torch::optim::SGD& sgd) {
    static_cast<torch::optim::SGDOptions&>(sgd.param_groups()[0].options()).lr(0.1);
  });
  dp.each([](Linear& net) { torch::nn::utils::clip_grad_norm_(net->parameters(), 0.5); });
  optimizer.step();
  EXPECT_NEAR((dp.module()->weight - before).norm().item<double>(), 0.05, 0.01);
  EXPECT_TRUE(torch::equal(dp.module(0)->weight, dp.module(1)->weight));
}

TEST(DataParallelUse, WeightsChangedOnReplicaZeroAreBroadcastOnRequest) {
  DataParallel dp(&make_line, cpus(3));
  {
    const torch::NoGradGuard no_grad;
    dp.module()->weight.fill_(4);
  }
  dp.broadcast_module();
  EXPECT_TRUE(torch::equal(dp.module(2)->weight, torch::full({2, 4}, 4.0)));
}

TEST(DataParallelUse, NoReplicaHoldsTheOutputsOfTheOthers) {
  // Outputs of 64 x 4096 float32, 1 MiB, are most of what a step needs. Gathered on one replica
  // they would make it the fullest.
  constexpr int kReplicas = 4;
  DataParallel dp([] { return Linear(16, 4096); }, cpus(kReplicas));
  const torch::Tensor x = torch::randn({64, 16}), y = torch::randint(0, 4096, {64});
  std::map<const void*, test::Tally*> tallies;
  std::mutex mutex;
  const auto loss = [&](Linear& net, const torch::Tensor& x, const torch::Tensor& y) {
    {
      const std::lock_guard lock(mutex);
      tallies[net.get()] = &test::Tally::of_thread();
    }
    return torch::nn::functional::cross_entropy(net->forward(x), y);
  };
  for (int i = 0; i < 3; ++i) dp.backward(x, y, loss);  // buckets are laid out
  const test::MemoryCount counted;
  dp.backward(x, y, loss);
  dp.zero_grad();
  tallies[nullptr] = &test::Tally::of_thread();
  std::map<const void*, int64_t> before;
  for (const auto& [net, tally] : tallies) {
    before[net] = tally->live();
    tally->start_peak();
  }
  dp.backward(x, y, loss);
  const auto peak_of = [&](const void* net) { return tallies[net]->peak() - before[net]; };
  std::vector<int64_t> peaks;
  for (int replica = 0; replica < kReplicas; ++replica)
    peaks.push_back(peak_of(dp.module(replica).get()));
  const auto [least, most] = std::ranges::minmax(peaks);
  EXPECT_LT(most, 1.1 * least);
  // A share of the outputs as log-probabilities, and their gradient; then the weights' gradients.
  constexpr int64_t kOutputs = 256 << 10, kWeights = 17 * 4096 * 4;
  EXPECT_GT(least, 2 * kOutputs);
  EXPECT_LT(most, 3 * kOutputs + 2 * kWeights);
  EXPECT_LT(peak_of(nullptr), 64 << 10) << "the caller holds a number";
}

// They round differently, and their hashes are made in another way.
TEST(DataParallelUse, ReplicasOnOtherKindsOfDevicesAreNotComparedBitForBit) {
  const auto found = [](const std::vector<std::vector<int64_t>>& rows) {
    std::vector<torch::Tensor> hashes;
    for (const auto& row : rows) hashes.push_back(torch::tensor(row, torch::kLong));
    return parallel::DesyncCheck::first_difference(torch::stack(hashes));
  };
  // Two hashes and the kind of device, by rank.
  EXPECT_FALSE(found({{5, 6, 0}, {7, 8, 1}, {5, 6, 0}, {7, 8, 1}}).has_value());
  const auto on_second_kind = found({{5, 6, 0}, {7, 8, 1}, {7, 9, 1}, {7, 9, 1}});
  ASSERT_TRUE(on_second_kind.has_value());
  EXPECT_EQ(on_second_kind->column, 1);
  EXPECT_EQ(on_second_kind->reference, 2);
  EXPECT_EQ(on_second_kind->others, std::vector<int64_t>{1});
  const auto on_one_kind = found({{5, 6, 0}, {4, 6, 0}, {5, 7, 0}});
  ASSERT_TRUE(on_one_kind.has_value());
  EXPECT_EQ(on_one_kind->column, 0);
  EXPECT_EQ(on_one_kind->reference, 0);
  EXPECT_EQ(on_one_kind->others, std::vector<int64_t>{1});
}

}  // namespace
}  // namespace muster
