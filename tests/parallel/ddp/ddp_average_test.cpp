// Averages that DistributedDataParallel makes apart from forward and backward.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/parallel/ddp/ddp.h"
#include "muster/testing/run_ranks.h"

#include "tests/parallel/graphs.h"
#include "tests/support/error_of.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using muster::testing::run_ranks;
using parallel::DdpOptions;
using parallel::DistributedDataParallel;
using test::draw;
using test::error_of;
using test::Graph;
using test::GraphImpl;
using test::make_graph;
using ::testing::HasSubstr;
using torch::Tensor;

/// 400 x 300 is above DdpOptions::direct_bytes in doubles, so that both ways of a gradient are there.
Graph two_sizes() {
  return make_graph({{400, 300}, {300, 4}}, [](GraphImpl& net, Tensor x) {
    return net.layers[1](torch::tanh(net.layers[0](x)));
  });
}

std::vector<Tensor> gradients_of(const Graph& net) {
  std::vector<Tensor> all;
  for (const Tensor& parameter : net->parameters()) all.push_back(parameter.grad().clone());
  return all;
}

Tensor average_rows(int rank, int64_t micro) {
  return draw({3, 400}, 900 + static_cast<uint64_t>(10 * rank + micro));
}

/// Gradients of three micro-batches on each of two ranks, the last one synchronised or all paused.
std::vector<Tensor> averaged(const DdpOptions& options, bool behind, int steps = 1) {
  std::vector<Graph> nets = {two_sizes(), two_sizes()};
  std::vector<Tensor> gradients;
  run_ranks(2, [&](ProcessGroup group) {
    const Graph net = nets[static_cast<size_t>(group.rank())];
    DistributedDataParallel ddp(net, group, options);
    for (int step = 0; step < steps; ++step) {
      ddp.zero_grad();
      for (int64_t micro = 0; micro < 3; ++micro) {
        const auto pause = ddp.accumulate(behind ? 0 : micro, 3);
        ddp->forward(average_rows(group.rank(), micro + step)).square().mean().backward();
      }
      if (behind) ddp.average_gradients();
    }
    if (group.rank() == 1) gradients = gradients_of(net);
  });
  return gradients;
}

TEST(DdpAverage, OfPausedBackwardsIsThatOfTheLastOneSynchronised) {
  for (const DdpOptions& options : {DdpOptions{},
                                    DdpOptions{.gradient_as_bucket_view = true},
                                    DdpOptions{.bucket_bytes_cap = 1000, .direct_bytes = 1 << 30},
                                    DdpOptions{.find_unused_parameters = true}}) {
    const auto expected = averaged(options, false), got = averaged(options, true);
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(torch::equal(expected[i], got[i])) << i;
  }
}

TEST(DdpAverage, TravelsByTheHook) {
  for (const std::string hook : {"fp16", "bf16"}) {
    const DdpOptions options{.comm_hook = hook};
    const auto expected = averaged(options, false, 4), got = averaged(options, true, 4);
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_LE((expected[i] - got[i]).abs().max().item<double>(), 1e-12) << hook << i;
  }
}

/// Rank 1 leaves out layer1, both leave out layer2.
TEST(DdpAverage, CountsAMissingGradientAsZeroAndLeavesOutWhatNobodyHas) {
  const auto make = [] {
    return make_graph({{4, 4}, {4, 4}, {4, 4}},
                      [](GraphImpl& net, Tensor x) { return net.layers[0](x); });
  };
  for (const std::string hook : {"none", "fp16"}) {
    std::vector<Graph> nets = {make(), make()};
    run_ranks(2, [&](ProcessGroup group) {
      const Graph net = nets[static_cast<size_t>(group.rank())];
      DistributedDataParallel ddp(net, group, {.find_unused_parameters = true, .comm_hook = hook});
      {
        const auto pause = ddp.no_sync();
        ddp.run_forward([&] {
             const Tensor x = torch::ones({1, 4}, torch::kDouble);
             return group.rank() == 0 ? net->layers[1](net->layers[0](x)) : net->layers[0](x);
           })
            .sum()
            .backward();
      }
      const Tensor own = net->layers[1]->bias.grad();
      EXPECT_EQ(own.defined(), group.rank() == 0);
      ddp.average_gradients();
    });
    for (const Graph& net : nets) {
      EXPECT_TRUE(torch::equal(net->layers[1]->bias.grad(), torch::full({4}, 0.5, torch::kDouble)));
      EXPECT_FALSE(net->layers[2]->weight.grad().defined());
    }
    EXPECT_TRUE(torch::equal(nets[0]->layers[0]->weight.grad(), nets[1]->layers[0]->weight.grad()));
  }
}

TEST(DdpAverage, IsRefusedWithinJoin) {
  std::vector<Graph> nets = {two_sizes(), two_sizes()};
  run_ranks(2, [&](ProcessGroup group) {
    DistributedDataParallel ddp(nets[static_cast<size_t>(group.rank())], group);
    ddp.join([&] { EXPECT_THAT(error_of([&] { ddp.average_gradients(); }), HasSubstr("join")); });
  });
}

}  // namespace
}  // namespace muster
