// A net of units, for tests of weights in shards.
#pragma once

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "muster/parallel/sharded/zero.h"
#include "muster/testing/run_ranks.h"

#include "tests/parallel/sharded/zero_nets.h"

namespace muster::test {

inline constexpr int64_t kUnitWidth = 6;

/// Layers as units between two that are none; what runs, and how, is the test's.
struct UnitNetImpl : torch::nn::Module {
  explicit UnitNetImpl(int64_t count) {
    torch::manual_seed(11);
    first = register_module("first", torch::nn::Linear(kUnitWidth, kUnitWidth));
    for (int64_t i = 0; i < count; ++i) {
      layers.push_back(
          register_module("layer" + std::to_string(i), torch::nn::Linear(kUnitWidth, kUnitWidth)));
    }
    last = register_module("last", torch::nn::Linear(kUnitWidth, 2));
    to(torch::kDouble);
  }

  torch::Tensor layer(size_t i, const torch::Tensor& x) {
    return torch::tanh(tensor::call_unit("layer" + std::to_string(i), layers.at(i), x));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor h = first(x);
    for (const size_t i : order.empty() ? in_order() : order) h = layer(i, h);
    return last(h);
  }
  std::vector<size_t> in_order() const {
    std::vector<size_t> all;
    for (size_t i = 0; i < layers.size(); ++i) all.push_back(i);
    return all;
  }
  std::vector<parallel::ShardUnit> units() const {
    std::vector<parallel::ShardUnit> all;
    for (size_t i = 0; i < layers.size(); ++i) all.push_back({"layer" + std::to_string(i)});
    return all;
  }

  torch::nn::Linear first{nullptr}, last{nullptr};
  std::vector<torch::nn::Linear> layers;
  std::vector<size_t> order;  ///< of calls, if not each once
};
TORCH_MODULE(UnitNet);

/// A rank's rows // [12 / world, kUnitWidth] float64
inline torch::Tensor rows_of(int rank, int world) {
  auto generator = torch::make_generator<at::CPUGeneratorImpl>(uint64_t{5});
  return torch::randn({12, kUnitWidth}, generator, torch::kDouble)
      .narrow(0, rank * 12 / world, 12 / world);
}

/// The weights after `train(net, zero-or-null, rows)` on each of so many ranks, or on one without
/// shards.
template <class Change>
std::pair<std::vector<torch::Tensor>, std::vector<torch::Tensor>> sharded_and_alone(
    int world, int64_t layers, const Change& change, parallel::ZeroOptions options = {}) {
  UnitNet alone(layers);
  change(*alone);
  torch::optim::SGD sgd(trained_of(*alone), 0.1);
  for (int step = 0; step < 3; ++step) {
    sgd.zero_grad();
    alone->forward(rows_of(0, 1)).square().mean().backward();
    sgd.step();
  }
  std::vector<torch::Tensor> state;
  testing::run_ranks(world, [&](distributed::ProcessGroup group) {
    static std::mutex draws;
    UnitNet net{nullptr};
    {
      const std::lock_guard lock(draws);
      net = UnitNet(layers);
    }
    change(*net);
    parallel::ZeroOptions mine = options;
    mine.stage = 3;
    if (mine.units.empty()) mine.units = net->units();
    parallel::ShardedDataParallel zero(net, group, mine);
    torch::optim::SGD sgd(zero.shard(), 0.1);
    for (int step = 0; step < 3; ++step) {
      sgd.zero_grad();
      zero->forward(rows_of(group.rank(), world)).square().mean().backward();
      zero.step(sgd);
    }
    const auto whole = zero.whole_weights();
    if (group.rank() == 0) state = copies(state_of(*net));
  });
  return {state, state_of(*alone)};
}

}  // namespace muster::test
