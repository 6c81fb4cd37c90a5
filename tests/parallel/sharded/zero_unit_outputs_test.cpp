// What comes out of units of stage 3, and which parts of them a backward reaches.
#include <cmath>
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/parallel/sharded/zero.h"
#include "muster/testing/run_ranks.h"

#include "tests/parallel/sharded/unit_net.h"
#include "tests/support/error_of.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using muster::testing::run_ranks;
using parallel::ShardedDataParallel;
using test::error_of;
using test::kUnitWidth;
using test::rows_of;
using test::UnitNet;
using ::testing::HasSubstr;

using Tensors = std::vector<torch::Tensor>;

/// What a test runs between the units of a net, on one device and with shards alike: the norm of
/// all gradients of two backwards.
using UnitsPass = std::function<torch::Tensor(UnitNet&, const torch::Tensor&)>;

void expect_same_norm(const UnitsPass& pass) {
  UnitNet alone(3);
  double expected = 0;
  for (int i = 0; i < 2; ++i) {
    alone->zero_grad();
    pass(alone, rows_of(0, 1)).backward();
    double squares = 0;
    for (const torch::Tensor& parameter : alone->parameters()) {
      if (parameter.grad().defined()) squares += parameter.grad().square().sum().item<double>();
    }
    expected = std::sqrt(squares);
  }
  for (const char* backend : {"thread", "gloo"}) {
    std::vector<UnitNet> nets{UnitNet(3), UnitNet(3)};
    run_ranks(
        2,
        [&](ProcessGroup group) {
          UnitNet net = nets[group.rank()];
          ShardedDataParallel zero(
              net, group, {.stage = 3, .find_unused_parameters = true, .units = net->units()});
          for (int i = 0; i < 2; ++i) {
            zero.zero_grad();
            zero.run_forward([&] { return pass(net, rows_of(0, 1)); }).backward();
            EXPECT_NEAR(zero.clip_grad_norm(1e9), expected, 1e-10) << backend << i;
          }
        },
        {.backend = backend});
  }
}

torch::Tensor unit(UnitNet& net, size_t i, const torch::Tensor& x) {
  return tensor::call_unit("layer" + std::to_string(i), net->layers[i], x);
}

// linear() of three dimensions ends in a view.
TEST(ZeroUnitOutputs, MayHaveTheirOutputsChangedInPlace) {
  expect_same_norm([](UnitNet& net, const torch::Tensor& rows) {
    torch::Tensor x = rows.view({2, 6, kUnitWidth});
    for (const size_t i : {0, 1, 2}) x = unit(net, i, x).relu_();
    return x.sum();
  });
  // One whose own operations keep the output: refused as it is without shards.
  std::vector<UnitNet> nets{UnitNet(1), UnitNet(1)};
  run_ranks(2, [&](ProcessGroup group) {
    UnitNet net = nets[group.rank()];
    ShardedDataParallel zero(net, group, {.stage = 3, .units = net->units()});
    const auto tanh_of = [&](const torch::Tensor& x) { return torch::tanh(net->layers[0](x)); };
    const torch::Tensor loss = zero.run_forward(
        [&] { return tensor::call_unit("layer0", tanh_of, rows_of(0, 1)).mul_(2).sum(); });
    EXPECT_THAT(error_of([&] { loss.backward(); }), HasSubstr("inplace operation"));
  });
}

TEST(ZeroUnitOutputs, MayPassTheirInputsOn) {
  expect_same_norm([](UnitNet& net, const torch::Tensor& rows) {
    const auto same = [](const torch::Tensor& x) { return x; };
    const torch::Tensor x = unit(net, 0, rows);
    const torch::Tensor y = tensor::call_unit("layer1", same, x);
    return unit(net, 2, torch::tanh(y)).sum();
  });
  expect_same_norm([](UnitNet& net, const torch::Tensor& rows) {
    const auto both = [&](const Tensors& in) { return Tensors{net->layers[1](in[0]), in[0]}; };
    const Tensors two = tensor::call_unit("layer1", both, Tensors{unit(net, 0, rows)});
    return unit(net, 2, two[0] * two[1]).sum();
  });
}

// Ranks that reach unlike parameters of the same units: transfers of weights and of gradients take
// turns all the same.
TEST(ZeroUnitOutputs, MayBeReachedInUnlikePartsOnTheRanks) {
  UnitNet alone(4);
  const auto pass = [](UnitNet& net, int rank, const torch::Tensor& rows) {
    torch::Tensor x = net->first(rows);
    for (size_t i = 0; i < 4; ++i) {
      const bool without_bias = static_cast<int>(i) == rank + 1;
      const auto layer = [&net, i, without_bias](const torch::Tensor& in) {
        return without_bias ? torch::linear(in, net->layers[i]->weight) : net->layers[i](in);
      };
      x = torch::tanh(tensor::call_unit("layer" + std::to_string(i), layer, x));
    }
    return rank == 0 ? net->last(x).sum() : x.sum();
  };
  double squares = 0;
  for (int rank = 0; rank < 3; ++rank) (pass(alone, rank, rows_of(rank, 3)) / 3).backward();
  for (const torch::Tensor& parameter : alone->parameters())
    squares += parameter.grad().square().sum().item<double>();
  for (const char* backend : {"thread", "shm", "gloo"}) {
    std::vector<UnitNet> nets{UnitNet(4), UnitNet(4), UnitNet(4)};
    run_ranks(
        3,
        [&](ProcessGroup group) {
          UnitNet net = nets[group.rank()];
          ShardedDataParallel zero(
              net, group, {.stage = 3, .find_unused_parameters = true, .units = net->units()});
          for (int i = 0; i < 3; ++i) {
            zero.zero_grad();
            zero.run_forward([&] { return pass(net, group.rank(), rows_of(group.rank(), 3)); })
                .backward();
            EXPECT_NEAR(zero.clip_grad_norm(1e9), std::sqrt(squares), 1e-10) << backend << i;
          }
        },
        {.backend = backend});
  }
}

}  // namespace
}  // namespace muster
